"""What our optimizers share: the step, settings per group, checkpoints, and loss-scaling rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation, Adaptive, as_activation
from gaf.functions.lift import refuse_partial
from gaf.kernels import compiled, foreach, native
from gaf.kernels.layout import TANGLED, Batch
from gaf.optim import _torch, adapt, settings
from gaf.optim.description import Rule, check_placement
from gaf.optim.monitor import Monitor
from gaf.optim.observation import Sample
from gaf.optim.settings import Acting, Group

Column = Sequence[Tensor | None]

GRAD_SCALER = ("grad_scale", "found_inf")  # what it writes on an optimizer that unscales by itself


class ActivatedOptimizer(torch.optim.Optimizer):
    """Mixed into a torch optimizer, in front of it; the settings live in the parameter groups."""

    version: ClassVar[int] = 1  # raised when the same settings and gradients give other weights
    rule: ClassVar[Rule]
    gaf_monitor: Monitor | None = None
    _own_defaults: Mapping[str, Any] = MappingProxyType({})  # those of a copy are in its defaults

    def _begin(
        self, activation: Activation | str | None, placement: str | None, **defaults: Any
    ) -> None:
        """Keep the constructor's setting for the groups that torch's constructor will add.

        Args:
            activation: what acts.
            placement: where.
            **defaults: arguments of groups that torch's own optimizer does not have.
        """
        self._setting = (as_activation(activation), check_placement(placement))
        self._own_defaults = defaults

    def _step_without(self, group: Group) -> None:
        """The step of a group that has no activation: torch's own."""
        raise NotImplementedError

    def _gather(
        self, group: Group, acting: Acting
    ) -> tuple[list[Tensor], list[Tensor], dict[str, Column], list[Tensor]]:
        """Parameters with a gradient, the gradients, states by their keys, and step counters."""
        raise NotImplementedError

    @_torch.use_grad_for_differentiable
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Perform one step.

        Args:
            closure: evaluates the model again and returns the loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        # all groups are read before any is written to
        actings = [settings.resolve(group, self.rule) for group in self.param_groups]
        for number, (group, acting) in enumerate(zip(self.param_groups, actings, strict=True)):
            if acting is None:
                self._step_without(group)
            else:
                self._step_group(number, group, acting)
        return loss

    def _step_group(self, number: int | None, group: Group, acting: Acting) -> None:
        """One group's step by the implementation that it asks for, or that suits it.

        Args:
            number: of the group, for a monitor; None where no activation acts.
            group: the group.
            acting: what acts in it.
        """
        params, grads, states, counters = self._gather(group, acting)
        hyper = {name: group[name] for name in self.rule.arguments}
        hyper["placement"] = acting.placement
        columns = list(states.values())
        how, batches = "", None
        if params:
            how, batches = implementation(self.rule, group, acting, params, grads, *columns)
        factors = None
        if acting.adaptive and params:
            factors = self._adapted(
                *(number, group, acting, params, grads, states, counters, hyper, batches)
            )
        monitor = self.gaf_monitor
        if monitor is not None and monitor.due and number is not None:
            self._observe(number, group, acting, params, grads, states, counters, hyper, factors)
        if not params:
            return
        scale = {name: getattr(self, name, None) for name in GRAD_SCALER}
        if how == "native":
            values = acting.params if factors is None else factors
            lists = [params, grads, *columns, *([counters] if self.rule.counts else [])]
            new = getattr(native, self.rule.name)(
                *lists, acting.function, values, **hyper, **scale, batches=batches
            )
        elif how == "compiled":
            new = compiled.step(
                *(self.rule.reference, acting.kind.formula, params, grads, columns, counters),
                acting.params if factors is None else factors,
                hyper,
                **scale,
            )
        else:
            counts = None
            if self.rule.counts:
                counts = _counted(counters, group)
            fs = acting.formulas(len(params), factors)
            run = foreach.step if how == "foreach" else one_by_one
            new = run(self.rule.reference, params, grads, columns, fs, counts, **hyper)
        self._carry(group, params, states, new)

    def _carry(
        self, group: Group, params: list[Tensor], states: dict[str, Column], new: Sequence[Column]
    ) -> None:
        """Keep states that are new tensors; those that exist are carried on in place."""
        for (key, old), column in zip(states.items(), new, strict=True):
            if column[0] is None:  # a state that the group does not have
                continue
            # where autograd needs the old ones, all are new
            if group["differentiable"] or type(None) in set(map(type, old)):
                if self._skipping():
                    return
                for p, t in zip(params, column, strict=True):
                    self.state[p][key] = t

    @_torch.disable_dynamo
    @torch.no_grad()
    def _observe(
        self,
        number: int,
        group: Group,
        acting: Acting,
        params: list[Tensor],
        grads: list[Tensor],
        states: dict[str, Column],
        counters: list[Tensor],
        hyper: dict[str, Any],
        factors: Tensor | None,
    ) -> None:
        monitor = self.gaf_monitor
        assert monitor is not None
        observation, inputs, sample = monitor.open.get(number), None, None
        if observation is None:
            return
        if acting.placement != "gradient" and params:
            sample, g = observation.sample, observation.gradients
            if any(t.is_sparse for t in grads):
                dense = [t.to_dense() if t.is_sparse else t for t in grads]
                sample = Sample(dense, params, monitor.sample, monitor.per == "tensor")
                g = sample(dense, params)
            assert sample is not None
            assert g is not None
            columns = list(states.values())
            inputs = seen_by_f(
                self.rule.reference, sample, params, g, columns, _next_counts(counters), **hyper
            )
        monitor.observe(
            *(number, acting.activation, inputs),
            sample=sample,
            meaning=self.rule.meaning(group, acting.placement),
            factors=factors,
        )

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; it may carry ``activation`` and ``placement`` of its own."""
        self.defaults.update(self._own_defaults)
        if isinstance(param_group, dict):
            group = dict(param_group)  # the caller's dict stays as it is
            activation, placement = self._setting
            if "gaf_function" in group:
                activation = settings.activation_of(group)
                placement = group.get("gaf_placement")
            activation = as_activation(group.pop("activation", activation))
            placement = check_placement(group.pop("placement", placement))
            whole = {**self.defaults, **group}
            if isinstance(activation, Adaptive):
                activation = activation.bound_to(whole)
                if whole["differentiable"]:
                    raise GafError(
                        f"{type(activation).__name__} reads its values off the gradients, which autograd "
                        "does not follow: leave differentiable=False, or give a function with fixed values"
                    )
            if activation is not None:
                placement = settings.placement_of(whole, activation, self.rule, placement)
            settings.store(group, activation, placement)
            param_group = group
        super().add_param_group(param_group)
        try:
            check_fused(self.rule, self.param_groups[-1])
        except RuntimeError:
            self.param_groups.pop()
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_setting": self._setting}

    @_torch.disable_dynamo
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint of ours or of torch.optim (which leaves the activation as it is).

        ``foreach``, ``fused`` and ``differentiable`` of a group with an activation stay as they were made:
        they are about this machine and this program, not about the training.
        """
        state_dict = settings.adapt_checkpoint(self.param_groups, state_dict, self._from_torch)
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=False):
            for key in self.rule.arguments:  # a checkpoint of torch.optim does not have ours
                saved.setdefault(key, group[key])
            if saved["gaf_function"] is not None:
                saved.update({key: group[key] for key in ("foreach", "fused", "differentiable")})
        super().load_state_dict(state_dict)
        for p, state in adapt.saved(self, state_dict).items():
            self.state[p][adapt.KEY] = state

    def _from_torch(self, group: Group, state: dict[Any, Any]) -> None:
        """Convert the state of a group that torch.optim has saved to what the group's placement keeps."""

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # Read by torch.amp.GradScaler: True hands step() scaled gradients, the scale and found_inf. Fused
        # kernels honour both, ours (with an activation) and torch's own (without).
        # Inside backward it is too late for a scaler, and step() refuses it.
        return "gaf_in_backward" in vars(self) or all(g["fused"] for g in self.param_groups)

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, value: bool) -> None:
        """torch's constructor sets this for ``fused=True``; here it follows from the groups."""

    def _adapted(
        self,
        number: int | None,
        group: Group,
        acting: Acting,
        params: list[Tensor],
        grads: list[Tensor],
        states: dict[str, Column],
        counters: list[Tensor],
        hyper: dict[str, Any],
        batches: list[Batch] | None,
    ) -> Tensor:
        """Let an adaptive activation see the step; returns each tensor's values."""
        entries = [self.state[p] for p in params]
        kept = [entry.get(adapt.KEY) for entry in entries]
        table = None
        if not torch.compiler.is_compiling():
            tables = vars(self).setdefault("_tables", {})  # by group; a copy begins without
            if len(tables) > len(self.param_groups):  # of groups that are gone
                tables.clear()
            table = tables.setdefault(number, adapt.Table())
        scale, skipped = self._loss_scale().values()
        counts: list[Any] | None = None
        if self.rule.counts and acting.placement != "gradient":
            if torch.compiler.is_compiling():
                counts = [_wide_count(c) + 1 for c in counters]
            else:
                counts = [c.item() + 1 for c in counters]
        new, factors = adapt.adapt(
            acting.activation,
            group,
            params,
            grads,
            list(states.values()),
            adapt.stacked(params, kept) if table is None else table.read(params, kept),
            reference=self.rule.reference,
            hyper=hyper,
            counts=counts,
            scale=scale,
            skipped=skipped,
            batches=batches,
        )
        if type(None) not in set(map(type, kept)) or not self._skipping():
            (adapt.write if table is None else table.write)(entries, new)
        return factors

    def _loss_scale(self) -> dict[str, Tensor | None]:
        """What :class:`torch.amp.GradScaler` writes on an optimizer whose step unscales by itself."""
        return {name: getattr(self, name, None) for name in GRAD_SCALER}

    def _skipping(self) -> bool:
        """Whether GradScaler found an inf, so that fused kernels have written nothing."""
        found_inf = getattr(self, "found_inf", None)
        return found_inf is not None and found_inf.item() > 0


def implementation(
    rule: Rule, group: Group, acting: Acting, *lists: Column
) -> tuple[str, list[Batch] | None]:
    """``"native"``, ``"compiled"``, ``"foreach"`` or ``"single"`` for a group with an activation.

    The native kernels also take what they have found of the tensors, the second value.

    ``foreach=`` and ``fused=`` mean what they mean in torch.optim. Unset, the fastest that needs no compiling
    when it is first called: native kernels, else foreach where torch would, else one tensor at a time.

    Args:
        rule: the optimizer's.
        group: the parameter group.
        acting: what acts in it.
        lists: its parameters, gradients and states, as parallel lists.
    """
    fused, foreach_asked = group["fused"], group["foreach"]
    if fused or (fused is None and foreach_asked is None):
        reason = None
        if acting.placement not in rule.native:
            at = f' for placement="{acting.placement}"' if rule.native else ""
            reason = f"{rule.name} has no native kernel{at}"
        elif group["differentiable"]:
            reason = "a fused step is not differentiable"
        elif torch.compiler.is_compiling():
            reason = None if fused else "torch.compile fuses the step by itself"
        elif group.get("capturable"):  # torch.compile sets it by itself
            reason = "the native kernels cannot be captured in a CUDA graph"
        batches = reason or native.look(acting.function, *lists, params=acting.params)
        if not isinstance(batches, str):
            return "native", batches
        if fused:
            reason = batches
            if not (group["differentiable"] or torch.compiler.is_compiling() or reason == TANGLED):
                reason = compiled.refusal(*lists)
            if reason is not None:
                raise RuntimeError(
                    f"`fused=True` cannot be honoured: {reason}; leave `fused` unset"
                )
            return "compiled", None
    refuse_partial(lists[1])  # the kernels have done so
    return without_kernels(rule, group, lists[0], lists[1]), None


def without_kernels(rule: Rule, group: Group, params: Column, grads: Column) -> str:
    """``"foreach"`` or ``"single"``."""
    if group["differentiable"] or any(t is not None and t.is_sparse for t in grads):
        return "single"
    if rule.counts and (group.get("capturable") or torch.compiler.is_compiling()):
        return "single"  # each tensor's count is a tensor of its own
    wanted = group["foreach"]
    if wanted is None:
        wanted = _torch.wants_foreach(params)  # type: ignore[arg-type]
    return "foreach" if wanted and params else "single"


def check_fused(rule: Rule, group: Group) -> None:
    """Refuse ``fused=True`` for a group that nothing fused can serve, as early as its parameters are known.

    Those on the meta device have no memory yet, and are refused by the step, as in torch.
    """
    acting = settings.resolve(group, rule)
    if group["fused"] and acting is not None:
        if group["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        params = [p for p in group["params"] if not p.is_meta]
        implementation(rule, group, acting, params, [None] * len(params))


def _counted(counters: list[Tensor], group: Group) -> list[Any]:
    """The number of each tensor's step, from 1; as a tensor where it must stay on its device."""
    if group["differentiable"] or group.get("capturable") or torch.compiler.is_compiling():
        for counter in counters:
            counter += 1
        return list(map(_wide_count, counters))
    torch._foreach_add_(counters, 1)
    return [counter.item() for counter in counters]


def _wide_count(counter: Tensor) -> Tensor:
    """In float32 1 - 0.999**step would have lost half of its digits."""
    return counter if counter.device.type == "mps" else counter.double()


def one_by_one(
    rule: Callable[..., tuple[Any, ...]],
    ws: Sequence[Tensor],
    gs: Sequence[Tensor],
    states: Sequence[Column],
    fs: Sequence[Callable[[Tensor], Tensor]],
    counts: Sequence[Any] | None,
    **hyper: Any,
) -> list[Column]:
    """What :func:`gaf.kernels.foreach.step` does, one tensor after the other."""
    rows = []
    for i, (w, g, f) in enumerate(zip(ws, gs, fs, strict=True)):
        numbers = hyper if counts is None else {**hyper, "step": counts[i]}
        rows.append(rule(w, g, *(column[i] for column in states), f, **numbers))
    return list(zip(*rows, strict=True))


def _next_counts(counters: Sequence[Tensor]) -> list[Any]:
    """The number of each tensor's step that has begun; torch's own Adam reads them too."""
    return [c.item() + 1 if c.device.type == "cpu" else c + 1 for c in counters]


def seen_by_f(
    rule: Callable[..., tuple[Any, ...]],
    sample: Sample,
    ws: Sequence[Tensor],
    g: Tensor,
    states: Sequence[Column],
    counts: Sequence[Any],
    **hyper: Any,
) -> Tensor:
    """What f is going to see of the sampled elements, by running the reference on copies.

    Args:
        rule: the reference.
        sample: which elements.
        ws: the tensors.
        g: the sampled gradients.
        states: lists of the rule's states, None for one that does not exist yet.
        counts: the number of each tensor's step; empty for a rule that does not take it.
        hyper: the rule's numbers.
    """
    seen: list[Tensor] = []

    def tap(x: Tensor) -> Tensor:
        seen.append(x.clone())
        return x.clone()  # what follows f does not matter here

    alike: dict[Any, list[int]] = {}
    for i in range(len(ws)):
        absent = tuple(column[i] is None for column in states)
        alike.setdefault((absent, counts[i] if counts else None), []).append(i)
    rows: list[Tensor] = [g] * len(ws)
    for (absent, count), members in alike.items():
        like, own = sample.of(members), [ws[i] for i in members]
        columns = [
            None if none else like([column[i] for i in members], own)
            for column, none in zip(states, absent, strict=True)
        ]
        numbers = hyper if count is None else {**hyper, "step": count}
        whole = len(alike) == 1
        part = g if whole else torch.cat([g.split(sample.lengths)[i] for i in members])
        rule(like(own, own), part, *columns, tap, **numbers)
        if whole:
            return seen.pop()
        for i, x in zip(members, seen.pop().split(like.lengths), strict=True):
            rows[i] = x
    return torch.cat(rows)


def unscaled(g: Tensor, scale: Tensor) -> Tensor:
    """What GradScaler.unscale_ does, in float32 for half precision: f(g) is rounded to it, not g."""
    wide = g.to(torch.promote_types(g.dtype, torch.float32))
    return wide * scale.double().reciprocal().float().to(g.device)
