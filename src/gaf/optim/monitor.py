"""A record of what f sees, step by step and group by group."""

from __future__ import annotations

import itertools
import json
import math
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation, Adaptive
from gaf.functions.lift import real_values
from gaf.optim.adapt import spacing
from gaf.optim.settings import lifted

NEAR = 0.95  # within 5 %: of the line slope * g ("linear"), of the bound ("saturated")

# What is counted, over the finite elements that are not 0.
SHARES = ("linear", "enlarged", "restrained", "saturated")

# A histogram has this many bins a decade, over all that single precision can hold.
BINS_A_DECADE = 4
LOWEST, HIGHEST = -45, 39  # as powers of 10; what lies beyond is counted at the ends


class Monitor:
    """Records what f sees: its largest input, quantiles, and how it treats the elements.

    Per step and parameter group a record holds ``max`` and ``quantiles`` of the absolute inputs; the
    shares of elements that are in the ``linear`` range (within 5 % of slope * g), ``enlarged``
    (|f(g)| > |g|), ``restrained`` (|f(g)| < |g|) and ``saturated`` (within 5 % of the bound), all among
    the finite elements that are not 0; and the numbers ``elements``, ``zeros`` and ``nonfinite``. The
    input is what the placement gives f: gradients, velocities or updates. It is computed beside the
    step and changes nothing. Figures stay on their device until they are read.

    Args:
        optimizer: one of ours, or one activated by :func:`gaf.activate`. None for use with
            :func:`gaf.activate_grad_`, which takes ``monitor=``.
        every: observe each ``every``-th step.
        quantiles: which quantiles, between 0 and 1.
        sample: quantiles and histograms are of about this many elements, evenly spaced.
        histogram: also record a ``histogram`` of the absolute inputs, four bins a decade: from the
            logarithm (to base 10) of a bin's lower edge, as text, to its share of the finite elements
            that are not 0. Empty bins are left out.

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
        quantiles: Sequence[float] = (0.01, 0.5, 0.99, 0.999),
        sample: int = 65536,
        histogram: bool = False,
    ) -> None:
        if not isinstance(every, int) or every < 1:
            raise GafError(f"every must be a whole number of at least 1, got {every}")
        if not all(0 <= q <= 1 for q in quantiles):
            raise GafError(f"quantiles must lie between 0 and 1, got {tuple(quantiles)}")
        if not 1 <= sample <= 2**23:
            raise GafError(f"sample must lie between 1 and {2**23}, got {sample}")
        self.every = every
        self.quantiles = tuple(quantiles)
        self.sample = sample
        self.histogram = histogram
        self._steps = 0
        self._records: list[dict[str, Any]] = []
        self._pending: list[tuple[dict[str, Any], Tensor]] = []
        # weak: the optimizer holds the monitor, and is freed with its last reference
        self._optimizer: weakref.ref[torch.optim.Optimizer] | None = None
        if optimizer is not None:
            self._attach(optimizer)

    def _attach(self, optimizer: torch.optim.Optimizer) -> None:
        if not any(group.get("gaf_function") for group in optimizer.param_groups):
            raise GafError("the optimizer has no activation to monitor: see gaf.activate")
        optimizer.gaf_monitor = self  # type: ignore[attr-defined]
        self._optimizer = weakref.ref(optimizer)

    def detach(self) -> None:
        """Stop recording; the records stay."""
        optimizer = self._optimizer() if self._optimizer is not None else None
        if optimizer is not None and vars(optimizer).get("gaf_monitor") is self:
            del vars(optimizer)["gaf_monitor"]  # unless another monitor has taken over
        self._optimizer = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_optimizer": None}  # a copy has the records, and watches nothing

    @property
    def due(self) -> bool:
        """Whether the step that has begun is one to observe."""
        return (self._steps - 1) % self.every == 0

    def begin_step(self) -> None:
        """Called once by whoever acts, before :meth:`observe`."""
        self._steps += 1

    @torch.no_grad()
    def observe(
        self,
        group: int,
        f: Activation,
        inputs: Iterable[Tensor],
        *,
        meaning: str = "gradients times {slope}",
        skipped: Tensor | None = None,
        factors: Tensor | None = None,
    ) -> None:
        """Record what f sees in one group.

        Args:
            group: the group's number.
            f: the function.
            inputs: its inputs; they are not modified.
            meaning: what a pure rescaling by ``{slope}`` amounts to here.
            skipped: GradScaler's found_inf; a record of a skipped step is dropped when read.
            factors: the values of each input where f adapts; None without inputs.
        """
        if not self.due:
            return
        slope = None if isinstance(f, Adaptive) else f.slope  # or each tensor's own
        head = {
            "step": self._steps,
            "group": group,
            "function": repr(f),
            "slope": slope,
            "meaning": "a learning rate for each tensor"
            if slope is None
            else meaning.format(slope=f"{slope:g}"),
        }
        if isinstance(f, Adaptive):
            curve, rows = f.curve, () if factors is None else factors
            curves = [
                (lifted(curve.formula, row), curve.slope(*row), curve.bound(*row)) for row in rows
            ]
        else:
            curves = itertools.repeat((f, f.slope, f.bound))
        figures = _figures(curves, inputs, self.quantiles, self.sample, self.histogram, skipped)
        self._pending.append((head, figures))

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records, oldest first; reading them is what waits for the device."""
        for head, figures in self._pending:
            record = self._record(head, figures.tolist())
            if record is not None:
                self._records.append(record)
        self._pending.clear()
        return self._records

    def _record(self, head: dict[str, Any], figures: list[float]) -> dict[str, Any] | None:
        skipped, elements, nonfinite, zeros, *counts = figures[: 4 + len(SHARES)]
        largest, *rest = figures[4 + len(SHARES) :]
        if skipped:
            return None
        alive = elements - nonfinite - zeros
        quantiles, bins = rest[: len(self.quantiles)], rest[len(self.quantiles) :]
        record = {
            **head,
            "elements": int(elements),
            "zeros": int(zeros),
            "nonfinite": int(nonfinite),
            "max": largest,
            "quantiles": dict(zip(map(str, self.quantiles), quantiles, strict=True)),
            **{
                name: count / alive if alive else 0.0
                for name, count in zip(SHARES, counts, strict=True)
            },
        }
        if self.histogram:
            record["histogram"] = _shares_of_bins(bins)
        return record

    @property
    def latest(self) -> dict[int, dict[str, Any]]:
        """The last record of each parameter group."""
        return {record["group"]: record for record in self.records}

    def __str__(self) -> str:
        return "\n".join(map(in_words, self.latest.values())) or "nothing recorded yet"

    def write_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write all records as JSON lines; the file appears whole or not at all."""
        path = Path(path)
        finite = [{key: _json_number(value) for key, value in r.items()} for r in self.records]
        lines = "".join(json.dumps(record, allow_nan=False) + "\n" for record in finite)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            unfinished.write_text(lines, "utf-8")
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)

    def write_tensorboard(self, writer: Any, prefix: str = "gaf") -> None:
        """Add every record to a ``SummaryWriter``."""
        for record in self.records:
            scalars = {name: record[name] for name in ("max", "nonfinite", *SHARES)}
            scalars |= {f"quantile_{q}": value for q, value in record["quantiles"].items()}
            for name, value in scalars.items():
                tag = f"{prefix}/group{record['group']}/{name}"
                writer.add_scalar(tag, value, global_step=record["step"])


def in_words(record: dict[str, Any]) -> str:
    """A sentence for a record."""
    say = f"group {record['group']}, {record['function']}: "
    if record["nonfinite"]:
        say += f"{record['nonfinite']} of {record['elements']} elements are inf or NaN. "
    if record["elements"] == record["zeros"] + record["nonfinite"]:
        return f"{say}there is nothing to act on: all elements are 0, inf or NaN."
    if record["linear"] >= 0.99:
        share, meaning = _percent(record["linear"]), record["meaning"]
        return f"{say}{share} of elements are in the linear range: here this is {meaning}."
    return (
        f"{say}{_percent(record['enlarged'])} of elements are enlarged, "
        f"{_percent(record['restrained'])} restrained, {_percent(record['saturated'])} saturated; "
        f"{_percent(record['linear'])} are in the linear range."
    )


def _percent(share: float) -> str:
    tenths = int(1000 * share)  # rounded down: 99.96 % is not all
    return f"{tenths / 10:g} %"


def _json_number(value: Any) -> Any:
    """inf and NaN are not JSON: they are written as strings."""
    if isinstance(value, dict):
        return {key: _json_number(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _shares_of_bins(counts: list[float]) -> dict[str, float]:
    """Each bin's share, by its lower edge.

    Example:
        >>> counts = [0.0] * 336
        >>> counts[160:162] = [1.0, 3.0]
        >>> _shares_of_bins(counts)
        {'-5': 0.25, '-4.75': 0.75}
    """
    total = sum(counts)
    return {
        f"{LOWEST + i / BINS_A_DECADE:g}": count / total for i, count in enumerate(counts) if count
    }


def _histogram(a: Tensor) -> Tensor:
    """How many of the absolute values lie in each bin; NaN and 0 in none."""
    bins = BINS_A_DECADE * (HIGHEST - LOWEST)
    alive = a > 0  # NaN is not
    place = BINS_A_DECADE * (torch.where(alive, a, 1.0).log10() - LOWEST)
    index = place.floor().long().clamp(0, bins - 1)
    # index_add_ and not bincount or a mask: those would wait for the device
    return torch.zeros(bins, dtype=a.dtype, device=a.device).index_add_(0, index, alive.to(a.dtype))


# A function with its slope and its bound, which may be numbers or tensors on the device.
Curve = tuple[Callable[[Tensor], Tensor], Any, Any]


def _figures(
    curves: Iterable[Curve],
    inputs: Iterable[Tensor],
    quantiles: tuple[float, ...],
    sample: int,
    histogram: bool,
    skipped: Tensor | None,
) -> Tensor:
    """All figures of one record in one tensor, on the device of the inputs."""
    values = [v.flatten() for v in map(real_values, inputs)]
    stride = spacing(*(v.numel() for v in values), sample=sample)
    device = values[0].device if values else torch.device("cpu")
    counts = torch.zeros(4 + len(SHARES), dtype=torch.float64, device=device)
    if skipped is not None:
        counts[0] = skipped
    largest = torch.zeros((), dtype=torch.float64, device=device)
    samples = []
    for v, (f, slope, bound) in zip(values, curves, strict=False):
        x = v.to(device=device, dtype=torch.promote_types(v.dtype, torch.float32))
        y, a = f(x).abs(), x.abs()
        finite = torch.isfinite(x)
        alive = finite & (a > 0)
        line = NEAR * slope * a
        counts[1:] += torch.stack(
            [
                torch.full_like(counts[0], x.numel()),
                (~finite).sum(),
                (a == 0).sum(),
                (alive & (y >= line)).sum(),
                (alive & (y > a)).sum(),
                (alive & (y < a)).sum(),
                (alive & (y >= NEAR * bound)).sum(),
            ]
        )
        largest = (
            torch.maximum(largest, torch.where(finite, a, 0).amax().double())
            if x.numel()
            else largest
        )
        samples.append(torch.where(finite, a, math.nan)[::stride].double())
    wanted = torch.tensor(quantiles, dtype=torch.float64, device=device)
    found = torch.cat(samples) if samples else torch.zeros(0, dtype=torch.float64, device=device)
    estimates = (
        torch.nanquantile(found, wanted) if found.numel() else torch.full_like(wanted, math.nan)
    )
    parts = [counts, largest[None], estimates, *([_histogram(found)] if histogram else [])]
    return torch.cat(parts)
