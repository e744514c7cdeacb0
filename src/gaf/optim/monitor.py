"""A record of gradients, clipping, updates and of what f does, step by step: on any optimizer."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.common.files import plain, write_whole
from gaf.functions import Activation, Adaptive
from gaf.functions.lift import is_dtensor
from gaf.optim import _torch
from gaf.optim.clipping import CLIP
from gaf.optim.diagnosis import GradientFinding, diagnose
from gaf.optim.observation import SHARES, Observation, Sample, sample_key

HOOK = "gaf_monitor"  # our key among torch's numbered hooks
PER = ("group", "tensor")
SAMPLE = {
    "group": 4096,
    "tensor": 256,
}  # elements; a step reads next to nothing beside the exact pass
QUANTILES = (0.01, 0.5, 0.99, 0.999)
TOGETHER = 1024  # norms of clipped steps that are packed in one tensor

Names = nn.Module | Iterable[tuple[str, Tensor]]


class Monitor:
    """Records what the gradients of any training do: their size, clipping, updates, and what f makes of them.

    Per observed step and parameter group (or tensor) a record holds, of the gradients as the step gets them:
    ``elements``, ``zeros``, ``nonfinite``, ``norm`` and ``max`` (of the finite ones), all exact;
    ``quantiles`` of the magnitudes, and ``update_ratio``, the size of the update over that of the weights,
    from evenly spaced elements. Where f acts, also the shares of its inputs in the ``linear`` range (within
    5 % of slope * g), ``enlarged`` (|f(g)| > |g|), ``restrained`` (|f(g)| < |g|) and ``saturated`` (within
    5 % of the bound), among those that are finite and not 0; and ``input`` with the figures of f's inputs:
    gradients, velocities or updates. Figures stay on their device until they are read, and are those
    of whole tensors where these are DTensors (quantiles: of this process's shards). Nothing is changed.

    Args:
        optimizer: any torch optimizer. None for use with :func:`gaf.activate_grad_`, which takes
            ``monitor=``.
        every: observe each ``every``-th step.
        per: a record for each ``"group"`` or each ``"tensor"``.
        names: the model, or its ``named_parameters()``: what tensors are called in records and sentences.
        quantiles: which quantiles, between 0 and 1.
        sample: about how many elements are looked at closely, evenly spaced, of each group (unset: 4096) or
            tensor (256).
        histogram: also record a ``histogram`` of f's absolute inputs, four bins a decade: from the
            logarithm (to base 10) of a bin's lower edge, as text, to its share of the finite elements
            that are not 0. Empty bins are left out.
        process_group: of processes that each hold a part of every parameter as plain tensors, such as FSDP's
            flat shards: the figures are those of all parts. DTensors need none.

    Example:
        >>> import gaf, torch
        >>> w = torch.ones(1000, requires_grad=True)
        >>> opt = gaf.SGD([w], lr=0.1, momentum=0.9, activation=gaf.Arctan(0.1, 20))
        >>> monitor = gaf.Monitor(opt)
        >>> (0.001 * w).sum().backward()
        >>> opt.step()
        >>> monitor.records[0]["linear"]
        1.0
        >>> print(monitor)
        group 0, Arctan(alpha=0.1, beta=20.0): 100 % of elements are in the linear range: here this is \
a learning rate times 2.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        every: int = 1,
        per: str = "group",
        names: Names | None = None,
        quantiles: Sequence[float] = QUANTILES,
        sample: int | None = None,
        histogram: bool = False,
        process_group: Any = None,
    ) -> None:
        if not isinstance(every, int) or every < 1:
            raise GafError(f"every must be a whole number of at least 1, got {every}")
        if per not in PER:
            raise GafError(f"per must be one of {', '.join(PER)}, got {per!r}")
        if not all(0 <= q <= 1 for q in quantiles):
            raise GafError(f"quantiles must lie between 0 and 1, got {tuple(quantiles)}")
        if sample is not None and not 1 <= sample <= 2**23:
            raise GafError(f"sample must lie between 1 and {2**23}, got {sample}")
        self.every = every
        self.per = per
        self.quantiles = tuple(quantiles)
        self.sample = SAMPLE[per] if sample is None else sample
        self.histogram = histogram
        self.process_group = process_group
        self.optimizer_name: str | None = None
        named = names.named_parameters() if isinstance(names, nn.Module) else names or ()
        self._names = {id(p): name for name, p in named}
        self._steps = 0
        self._records: list[dict[str, Any]] = []
        self.open: dict[int, Observation] = {}  # of the step that has begun, by group
        self._heads: dict[int, list[dict[str, Any]]] = {}
        self._pending: list[tuple[list[dict[str, Any]], Observation, Tensor | None]] = []
        self._skipped: Tensor | None = None
        self._samples: dict[int, tuple[Sample, list[dict[str, Any]]]] = {}  # of the step before
        self._wanted = torch.tensor(self.quantiles, dtype=torch.float64, device="cpu")
        # The first gradient of the step in progress, and how often it was written to. Held, not named by its
        # id: a closure that frees its gradients may find the same id for the next ones.
        self._known: tuple[Tensor, int] | None = None
        self._clips: list[tuple[int, float, Tensor]] = []  # step, max_norm, norms
        self._fresh_clips: list[tuple[int, float, Tensor]] = []
        # weak: the optimizer holds the monitor, and is freed with its last reference
        self._optimizer: weakref.ref[torch.optim.Optimizer] | None = None
        if optimizer is not None:
            self._attach(optimizer)

    def _attach(self, optimizer: torch.optim.Optimizer) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"Monitor takes a torch optimizer, got {type(optimizer).__name__}")
        if not _torch.is_hooked(type(optimizer)):
            raise GafError(
                f"{type(optimizer).__name__} has not called torch.optim.Optimizer.__init__, so its step runs "
                "no hooks: if it wraps another optimizer, monitor that one"
            )
        optimizer.gaf_monitor = self  # type: ignore[attr-defined]
        before, after, *_ = _torch.hooks(optimizer)
        before[HOOK], after[HOOK] = _before_step, _after_step
        before.move_to_end(HOOK, last=False)  # type: ignore[attr-defined] - f acts on gradients in place
        self.optimizer_name = type(optimizer).__name__
        self._optimizer = weakref.ref(optimizer)

    def detach(self) -> None:
        """Stop recording; the records stay."""
        optimizer = self._optimizer() if self._optimizer is not None else None
        if optimizer is not None and vars(optimizer).get("gaf_monitor") is self:
            del vars(optimizer)["gaf_monitor"]  # unless another monitor has taken over
            for hooks in _torch.hooks(optimizer):
                hooks.pop(HOOK, None)
        self._optimizer = None

    def __getstate__(self) -> dict[str, Any]:
        self._close()
        self._read()
        # a copy has the records, and watches nothing
        own = {"_optimizer": None, "_names": {}, "_samples": {}, "process_group": None}
        return {**vars(self), **own}

    @property
    def due(self) -> bool:
        """Whether the step that has begun is one to observe."""
        return (self._steps - 1) % self.every == 0

    @torch.no_grad()
    def clip_grad_norm_(
        self,
        parameters: Tensor | Iterable[Tensor],
        max_norm: float,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = False,
        foreach: bool | None = None,
    ) -> Tensor:
        """What :func:`torch.nn.utils.clip_grad_norm_` does and returns; the norm is kept, on its device."""
        norm = CLIP(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
        self.note_clip(norm, max_norm)
        return norm

    def note_clip(self, norm: Tensor, max_norm: float) -> None:
        """Keep the norm that a step was clipped by, for clipping done elsewhere."""
        kept = norm.full_tensor() if is_dtensor(norm) else norm  # type: ignore[attr-defined]
        kept = torch.as_tensor(kept).detach().reshape(1)
        self._fresh_clips.append((self._steps + 1, float(max_norm), kept))
        if len(self._fresh_clips) >= TOGETHER:
            self._pack_clips()

    def owns(self, params: Iterable[Tensor]) -> bool:
        """Whether the optimizer steps one of these parameters."""
        optimizer = self._optimizer() if self._optimizer is not None else None
        groups = [] if optimizer is None else optimizer.param_groups
        mine = {id(p) for group in groups for p in group["params"]}
        return not mine.isdisjoint(map(id, params))

    def _pack_clips(self) -> None:
        """Many small tensors in one, for each max_norm."""
        fresh, self._fresh_clips = self._fresh_clips, []
        for step, max_norm, norm in fresh:
            if self._clips and self._clips[-1][1] == max_norm and step == self._next_clip:
                first, _, norms = self._clips[-1]
                self._clips[-1] = (first, max_norm, torch.cat((norms, norm.to(norms))))
            else:
                self._clips.append((step, max_norm, norm))
            self._next_clip = step + 1

    @property
    def clips(self) -> list[dict[str, Any]]:
        """Each call of clip_grad_norm_, oldest first: ``step``, ``norm`` before it, ``max_norm``."""
        self._pack_clips()
        return [
            {"kind": "clip", "step": first + i, "norm": norm, "max_norm": max_norm}
            for first, max_norm, norms in self._clips
            for i, norm in enumerate(norms.tolist())
        ]

    def begin_step(self, groups: Sequence[dict[str, Any]], optimizer: Any = None) -> None:
        """Called once by whoever steps, when the gradients are there; then :meth:`observe`, where f acts."""
        self._close()
        self._steps += 1
        if not self.due:
            return
        scale = getattr(optimizer, "grad_scale", None)
        self._skipped = getattr(optimizer, "found_inf", None)
        for number, group in enumerate(groups):
            params = [p for p in group["params"] if _observable(p)]
            grads: list[Tensor] = [p.grad for p in params]  # type: ignore[misc]
            each = self.per == "tensor"
            places = [[i] for i in range(len(params))] if each else [list(range(len(params)))]
            sample, heads = self._samples.get(number, (None, []))
            if sample is None or sample.key is None or sample.key != sample_key(grads, params):
                sample = Sample(grads, params, self.sample, each)
                heads = [self._head(number, group, params, place) for place in places]
                self._samples[number] = (sample, heads)
            if self._wanted.device != sample.home:
                self._wanted = self._wanted.to(sample.home, sample.wide)
            self._heads[number] = [{**head, "step": self._steps} for head in heads]
            self.open[number] = Observation(
                *(params, grads, places),
                sample=sample,
                quantiles=self._wanted,
                each=each,
                histogram=self.histogram,
                scale=scale,
                process_group=self.process_group,
            )

    def _head(
        self, number: int, group: dict[str, Any], params: list[Tensor], place: list[int]
    ) -> dict[str, Any]:
        """What does not change from step to step."""
        dtypes = {str(params[i].dtype).removeprefix("torch.") for i in place}
        head: dict[str, Any] = {"kind": "gradients", "step": 0, "group": number}
        head |= {"name": f"group {number}", "dtype": ", ".join(sorted(dtypes))}
        if self.per == "tensor":
            head["name"] = self.name_of(params[place[0]], number, group)
            head["shape"] = list(params[place[0]].shape)
        return head

    def name_of(self, p: Tensor, number: int, group: dict[str, Any]) -> str:
        """What a parameter is called: by the model, by the optimizer, or by its place."""
        if id(p) in self._names:
            return self._names[id(p)]
        place = next(i for i, other in enumerate(group["params"]) if other is p)
        given = group.get("param_names")
        return given[place] if given else f"group {number}, tensor {place}"

    @torch.no_grad()
    def observe(
        self,
        group: int,
        f: Activation,
        inputs: Tensor | None = None,
        *,
        sample: Sample | None = None,
        meaning: str = "gradients times {slope}",
        factors: Tensor | None = None,
    ) -> None:
        """Record what f does in one group in the step that has begun.

        Args:
            group: the group's number.
            f: the function.
            inputs: its sampled inputs; None where they are the gradients.
            sample: which elements those are; None where they are those of the gradients.
            meaning: what a pure rescaling by ``{slope}`` amounts to here.
            factors: the values of each tensor where f adapts; None without inputs.
        """
        if group not in self.open:
            return
        slope = None if isinstance(f, Adaptive) else f.slope  # or each tensor's own
        says = "a learning rate for each tensor"
        if slope is not None:
            says = meaning.format(slope=f"{slope:g}")
        for head in self._heads[group]:
            head |= {"function": repr(f), "slope": slope, "meaning": says}
        self.open[group].see(f, inputs, sample, factors)

    def end_step(self) -> None:
        """Called after the step: the weights have changed."""
        for observation in self.open.values():
            observation.measure_update()
        self._close()

    def _close(self) -> None:
        for number, observation in self.open.items():
            observation.close()
            self._pending.append((self._heads[number], observation, self._skipped))
        self.open.clear()
        self._known = None

    def _read(self) -> None:
        for heads, observation, skipped in self._pending:
            if skipped is not None and skipped.item():
                continue  # GradScaler has skipped the step
            for head, figures in zip(heads, observation.read(), strict=True):
                record = {**head, **figures}
                for part in (record, record.get("input")):
                    if part is not None:
                        names = map(str, self.quantiles)
                        part["quantiles"] = dict(zip(names, part["quantiles"], strict=True))
                self._records.append(record)
        self._pending.clear()

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records, oldest first; reading them is what waits for the device."""
        self._close()
        self._read()
        return self._records

    @property
    def latest(self) -> dict[Any, dict[str, Any]]:
        """The last record of each parameter group by its number, or of each tensor by its name."""
        key = "group" if self.per == "group" else "name"
        return {record[key]: record for record in self.records}

    @property
    def findings(self) -> list[GradientFinding]:
        """What there is to say of the records and of the clipping, the most alarming first."""
        return diagnose(self.records, self.clips, self.optimizer_name)

    def __str__(self) -> str:
        if not self.records:
            return "nothing recorded yet"
        return "\n".join(map(str, self.findings)) or "nothing stands out"

    def write_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write all records and clips as JSON lines; the file appears whole or not at all."""
        lines = (json.dumps(plain(r), allow_nan=False) + "\n" for r in self.records + self.clips)
        write_whole(Path(path), "".join(lines).encode())

    def write_tensorboard(self, writer: Any, prefix: str = "gaf") -> None:
        """Add every record to a ``SummaryWriter``."""
        for record in self.records:
            place = f"group{record['group']}" if self.per == "group" else record["name"]
            for name, value in scalars_of(record).items():
                writer.add_scalar(f"{prefix}/{place}/{name}", value, global_step=record["step"])
        for clip in self.clips:
            writer.add_scalar(f"{prefix}/norm_before_clipping", clip["norm"], clip["step"])


def scalars_of(record: dict[str, Any]) -> dict[str, float]:
    """The figures of a record that are a number each, for a log."""
    names = ("norm", "max", "zeros", "nonfinite", "update_ratio", *SHARES)
    scalars = {name: record[name] for name in names if record.get(name) is not None}
    return scalars | {f"quantile_{q}": value for q, value in record["quantiles"].items()}


def _observable(p: Tensor) -> bool:
    """Whether p has a gradient that is computed: one whose sum over processes is pending is not."""
    g = p.grad
    if g is None or type(g) is Tensor:
        return g is not None
    return not (is_dtensor(g) and any(placement.is_partial() for placement in g.placements))  # type: ignore[attr-defined]


def _first_gradient(optimizer: torch.optim.Optimizer) -> Tensor | None:
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                return p.grad
    return None


@_torch.disable_dynamo
def _before_step(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    monitor: Monitor = optimizer.gaf_monitor  # type: ignore[attr-defined]
    _torch.hooks(optimizer)[1].move_to_end(HOOK)  # type: ignore[attr-defined] - after f has acted
    closure = kwargs.get("closure", args[1] if len(args) > 1 and callable(args[1]) else None)
    if closure is None:
        _begin(monitor, optimizer)
        return None

    def observed() -> Any:
        loss = closure()
        _begin(monitor, optimizer)
        return loss

    if "closure" in kwargs:
        return args, {**kwargs, "closure": observed}
    return (*args[:1], observed, *args[2:]), kwargs


@torch.no_grad()
def _begin(monitor: Monitor, optimizer: torch.optim.Optimizer) -> None:
    # a step that calls its parent's step runs hooks twice on the same gradients
    first, known = _first_gradient(optimizer), monitor._known
    if known is not None and known[0] is first and known[1] == known[0]._version:
        return
    monitor.begin_step(optimizer.param_groups, optimizer)
    monitor._known = None if first is None else (first, first._version)


@_torch.disable_dynamo
@torch.no_grad()
def _after_step(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    monitor: Monitor = optimizer.gaf_monitor  # type: ignore[attr-defined]
    monitor.end_step()
