"""What one observed step knows of one parameter group, kept on the device until it is read.

Exact, in one pass: how many elements there are, how many are 0, inf or NaN, the sum of squares and the
largest magnitude. From evenly spaced elements: quantiles, the size of the update, what f does.
Sums and maxima are kept for each tensor, and are those of the whole tensor where it is sharded.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.functions import Activation, Adaptive
from gaf.functions.lift import is_dtensor, local_shard, real_values
from gaf.kernels.figures import figures, gather, gatherable
from gaf.kernels.layout import all_plain
from gaf.optim.adapt import _numbers as numbers
from gaf.optim.adapt import spacing

NEAR = 0.95  # within 5 %: of the line slope * g ("linear"), of the bound ("saturated")

# What is counted of f's inputs, over the finite elements that are not 0.
SHARES = ("linear", "enlarged", "restrained", "saturated")

# A histogram has this many bins a decade, over all that single precision can hold.
BINS_A_DECADE = 4
LOWEST, HIGHEST = -45, 39  # as powers of 10; what lies beyond is counted at the ends

# Sums over a tensor's elements, or over its sample (`sampled` and after).
SUMS = (
    "elements",
    "squares",
    "nonfinite",
    "zeros",
    "sampled",
    "near_smallest",
    "weights",
    "changes",
)
SEEN = ("elements", "nonfinite", "zeros", *SHARES)  # sums over the sample of f's inputs


def smallest(dtype: torch.dtype) -> float:
    """16 times the smallest number of a dtype: a gradient below it is about to vanish.

    float16 keeps its subnormal numbers everywhere; of the wider ranges processors may drop them.
    """
    info = torch.finfo(dtype)
    return 16 * (
        info.smallest_normal * info.eps if dtype == torch.float16 else info.smallest_normal
    )


class Sample:
    """Which elements of a list of tensors are looked at: evenly spaced ones, one tensor after the other.

    Args:
        tensors: gradients, or the tensors that are like them.
        like: the parameters: elements are counted in the order in which these lie in memory.
        size: about how many elements, of all together or (``each``) of every tensor.
        each: whether every tensor has a distance between elements of its own.
    """

    def __init__(
        self, tensors: Sequence[Tensor], like: Sequence[Tensor], size: int, each: bool
    ) -> None:
        self.key = sample_key(tensors, like)
        sizes = [t.numel() * (2 if t.is_complex() else 1) for t in like]  # of the whole tensors
        if each:
            self.steps = [spacing(n, sample=size) for n in sizes]
        else:
            self.steps = [spacing(*sizes, sample=size)] * len(sizes)
        self.elements = [_count(t) for t in tensors]
        self.lengths = [-(-n // step) for n, step in zip(self.elements, self.steps, strict=True)]
        self.home = local_shard(tensors[0]).device if tensors else torch.device("cpu")
        self.wide = torch.float32 if self.home.type == "mps" else torch.float64
        lengths = torch.tensor(self.lengths, dtype=torch.long, device="cpu")
        places = torch.repeat_interleave(torch.arange(len(lengths), device="cpu"), lengths)
        self.index = places.to(self.home)
        limits = [smallest(t.dtype) for t in tensors]
        self.limits = torch.tensor(limits, dtype=self.wide, device=self.home)[self.index]
        self.counts = torch.tensor(self.elements, dtype=self.wide, device=self.home)

    def __call__(self, tensors: Sequence[Any], like: Sequence[Tensor]) -> Tensor:
        """The elements of each, in float64 where there is one; on the device of the first."""
        if not self.lengths:
            return torch.zeros(0, dtype=self.wide, device=self.home)
        if gatherable(tensors) and all(map(Tensor.is_contiguous, like)):
            return gather(tensors, self.steps, sum(self.lengths))
        rows = [
            numbers(t.detach(), p)[::step]
            for t, p, step in zip(tensors, like, self.steps, strict=True)
        ]
        if len({(row.dtype, row.device) for row in rows}) > 1:
            rows = [row.to(self.home, self.wide) for row in rows]
        return torch.cat(rows).to(self.wide)

    def of(self, members: Sequence[int]) -> Sample:
        """The same elements of some of the tensors."""
        part = copy.copy(self)
        part.steps = [self.steps[i] for i in members]
        part.lengths = [self.lengths[i] for i in members]
        return part

    def sums(self, *columns: Tensor) -> Tensor:
        """Columns of values for each element, summed over each tensor: a row each."""
        values = torch.stack([column.to(self.wide) for column in columns], dim=1)
        return values.new_zeros(len(self.lengths), len(columns)).index_add_(0, self.index, values)

    def largest(self, values: Tensor) -> Tensor:
        """The largest value of each tensor, at least 0."""
        none = values.new_zeros(len(self.lengths))
        return none.scatter_reduce_(0, self.index, values, "amax")


def sample_key(tensors: Sequence[Tensor], like: Sequence[Tensor]) -> Any:
    """Equal for lists that the same :class:`Sample` serves; None where it serves no other step."""
    if any(t.layout != torch.strided for t in tensors):
        return None
    return [(id(p), t.dtype, t.device, t.shape) for t, p in zip(tensors, like, strict=True)]


class Observation:
    """One step of one group.

    Args:
        params: the group's parameters that have a gradient.
        grads: their gradients.
        places: the numbers of the tensors of each record.
        sample: which elements are looked at.
        quantiles: which.
        each: whether each tensor is a place.
        histogram: whether to keep one of f's inputs.
        scale: GradScaler's, where the gradients still carry it.
        process_group: of processes that each hold a part of every plain tensor.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        grads: Sequence[Tensor],
        places: Sequence[Sequence[int]],
        *,
        sample: Sample,
        quantiles: Tensor,
        each: bool,
        histogram: bool = False,
        scale: Tensor | None = None,
        process_group: Any = None,
    ) -> None:
        self.params, self.places, self.quantiles = params, places, quantiles
        self.each, self.histogram, self.process_group = each, histogram, process_group
        self.sample: Sample | None = sample
        x = sample(grads, params)
        inverse = None if scale is None else scale.double().reciprocal().to(x)
        a = x.abs()
        alive = a > 0
        self.parts = [
            _exact(grads, sample, inverse),
            sample.sums(alive, alive & (a < sample.limits)),
        ]
        self.gradients: Tensor | None = x if inverse is None else x * inverse
        self.estimates = self._quantiles(sample, self.gradients)
        self.weights = sample
        if sample.key is None:  # sparse gradients, of dense weights
            self.weights = Sample(params, params, sum(sample.lengths) or 1, each)
        self.before: Tensor | None = self.weights(params, params)
        self.f: dict[str, Any] | None = None
        self.packed: Tensor | None = None

    def _quantiles(self, sample: Sample, x: Tensor) -> Tensor:
        """Of the magnitudes that are finite; a row for each place."""
        if not x.numel():
            return x.new_full((len(self.places), len(self.quantiles)), math.nan)
        a = torch.where(torch.isfinite(x), x.abs(), math.nan)
        rows = a[None]
        if self.each:
            rows = torch.nn.utils.rnn.pad_sequence(list(a.split(sample.lengths)), True, math.nan)
        return torch.nanquantile(rows, self.quantiles.to(a), dim=1).T

    def see(
        self, f: Activation, x: Tensor | None, sample: Sample | None, factors: Tensor | None
    ) -> None:
        """Count what f does to its inputs.

        Args:
            f: the function.
            x: the sampled inputs; None for the gradients.
            sample: which elements those are; None for the ones of the gradients.
            factors: the values of each tensor where f adapts.
        """
        assert self.sample is not None
        assert self.gradients is not None
        sample = self.sample if sample is None else sample
        x = self.gradients if x is None else x
        if isinstance(f, Adaptive):
            values = x.new_ones(2) if factors is None else factors.to(x)[sample.index].unbind(1)
            y = f.curve.formula(torch, x, *values)
            slope, bound = f.curve.slope(*values), f.curve.bound(*values)
        else:
            y, slope, bound = f(x), f.slope, f.bound
        y, a = y.abs(), x.abs()
        finite = torch.isfinite(x)
        alive = finite & (a > 0)
        counts = sample.sums(
            torch.ones_like(a),
            ~finite,
            a == 0,
            alive & (y >= NEAR * slope * a),
            alive & (y > a),
            alive & (y < a),
            alive & (y >= NEAR * bound),
        )
        self.f = {
            "sums": counts,
            "largest": sample.largest(torch.where(finite, a, 0)),
            "estimates": self._quantiles(sample, x),
            "bins": _histogram(a, sample) if self.histogram else None,
        }

    def measure_update(self) -> None:
        """Compare the weights with what they were before the step."""
        if self.before is None:
            return
        change = self.weights(self.params, self.params) - self.before
        sums = self.weights.sums(self.before.square(), change.square())
        # what is not finite tells nothing of the others
        self.parts.append(torch.nan_to_num(sums, 0.0, 0.0, 0.0))
        self.before = None

    def close(self) -> None:
        """Pack all figures in one tensor; of sharded tensors, those of all shards."""
        exact, *rest = self.parts
        if len(rest) < 2:  # nobody has measured the update
            rest.append(torch.full_like(rest[0], math.nan))
        largest = exact[:, 1:2]
        sums = [exact[:, :1], exact[:, 2:], *rest]
        if self.f is not None:
            sums.append(self.f["sums"])
            largest = torch.cat((largest, self.f["largest"][:, None]), 1)
            if self.f["bins"] is not None:
                sums.append(self.f["bins"])
        both = torch.cat(sums, 1), largest
        all_sums, all_largest = over_processes(*both, self.params, self.process_group)
        self.widths = (all_sums.shape[1], all_largest.shape[1])
        parts = [all_sums, all_largest, self.estimates]
        if self.f is not None:
            parts.append(self.f["estimates"])
        self.packed = torch.cat([part.flatten() for part in parts])
        self.parts, self.params, self.sample, self.gradients, self.before = [], (), None, None, None

    def read(self) -> list[dict[str, Any]]:
        """The figures of each place; this waits for the device."""
        assert self.packed is not None
        values = self.packed.tolist()
        n, (wide, narrow), q = self.tensors, self.widths, len(self.quantiles)

        def rows(count: int, width: int) -> list[list[float]]:
            taken = values[: count * width]
            del values[: count * width]
            return [taken[i * width : (i + 1) * width] for i in range(count)]

        sums, largest = rows(n, wide), rows(n, narrow)
        estimates = rows(len(self.places), q)
        inputs = rows(len(self.places), q) if self.f is not None else None
        found = []
        for number, place in enumerate(self.places):
            total = [math.fsum(column) for column in zip(*(sums[i] for i in place), strict=True)]
            total = total or [0.0] * wide
            top = [max((largest[i][k] for i in place), default=0.0) for k in range(narrow)]
            record = _gradients(total, top, estimates[number])
            if inputs is not None:
                record |= _inputs(total[len(SUMS) :], top[1], inputs[number], self.histogram)
            found.append(record)
        return found

    @property
    def tensors(self) -> int:
        """How many there are."""
        return sum(map(len, self.places))


def _exact(grads: Sequence[Tensor], sample: Sample, inverse: Tensor | None) -> Tensor:
    """Elements, largest, squares, nonfinite and zeros of each gradient, a row each."""
    if not grads:
        return torch.zeros(0, 5, dtype=torch.float64, device="cpu")
    if len({g.device for g in grads}) == 1:
        found = figures(grads)
    else:
        found = torch.cat([figures([g]).to(sample.home) for g in grads])
    squares, largest, nonfinite, zeros = found.unbind(1)
    if inverse is not None:
        squares, largest = squares * inverse.square(), largest * inverse
    return torch.stack((sample.counts, largest, squares, nonfinite, zeros), dim=1)


def _count(g: Tensor) -> int:
    """How many numbers this process holds."""
    if g.layout == torch.strided and not is_dtensor(g):
        return g.numel() * (2 if g.is_complex() else 1)
    return real_values(g).numel()


def _gradients(sums: list[float], largest: list[float], estimates: list[float]) -> dict[str, Any]:
    values = dict(zip(SUMS, sums, strict=False))
    weights = values["weights"]
    return {
        "elements": int(values["elements"]),
        "zeros": int(values["zeros"]),
        "nonfinite": int(values["nonfinite"]),
        "norm": math.sqrt(values["squares"]),
        "max": largest[0],
        "quantiles": estimates,
        "near_smallest": _share(values["near_smallest"], values["sampled"]),
        "update_ratio": math.sqrt(values["changes"] / weights) if weights > 0 else None,
    }


def _inputs(
    sums: list[float], largest: float, estimates: list[float], histogram: bool
) -> dict[str, Any]:
    """What f does, as shares of its inputs that are finite and not 0, and what those are."""
    values = dict(zip(SEEN, sums, strict=False))
    alive = values["elements"] - values["nonfinite"] - values["zeros"]
    counts = {name: int(values[name]) for name in ("elements", "zeros", "nonfinite")}
    record: dict[str, Any] = {name: _share(values[name], alive) for name in SHARES}
    record["input"] = {**counts, "max": largest, "quantiles": estimates}
    if histogram:
        record["histogram"] = shares_of_bins(sums[len(SEEN) :])
    return record


def _share(count: float, of: float) -> float:
    return count / of if of else 0.0


def shares_of_bins(counts: list[float]) -> dict[str, float]:
    """Each bin's share, by its lower edge.

    Example:
        >>> counts = [0.0] * 336
        >>> counts[160:162] = [1.0, 3.0]
        >>> shares_of_bins(counts)
        {'-5': 0.25, '-4.75': 0.75}
    """
    total = sum(counts)
    return {
        f"{LOWEST + i / BINS_A_DECADE:g}": count / total for i, count in enumerate(counts) if count
    }


def _histogram(a: Tensor, sample: Sample) -> Tensor:
    """How many of the absolute values of each tensor lie in each bin; inf, NaN and 0 in none."""
    bins = BINS_A_DECADE * (HIGHEST - LOWEST)
    alive = (a > 0) & torch.isfinite(a)  # NaN is not
    place = BINS_A_DECADE * (torch.where(alive, a, 1.0).log10() - LOWEST)
    index = place.floor().long().clamp(0, bins - 1) + bins * sample.index
    # index_add_ and not bincount or a mask: those would wait for the device
    counts = a.new_zeros(len(sample.lengths) * bins).index_add_(0, index, alive.to(a.dtype))
    return counts.view(len(sample.lengths), bins)


def over_processes(
    sums: Tensor, largest: Tensor, tensors: Sequence[Tensor], process_group: Any
) -> tuple[Tensor, Tensor]:
    """Rows of sums and of maxima over all shards of each tensor; a tensor that is not sharded has one.

    A few numbers for each tensor are sent, once for each dimension of a mesh along which it is sharded.
    Nothing waits for the device, and every process has the same figures.
    """
    parts: dict[Any, list[int]] = {}
    if process_group is None and all_plain(tensors):
        return sums, largest
    for i, t in enumerate(tensors):
        if is_dtensor(t):
            for dimension, placement in enumerate(t.placements):  # type: ignore[attr-defined]
                if placement.is_shard():
                    parts.setdefault((t.device_mesh, dimension), []).append(i)  # type: ignore[attr-defined]
        elif process_group is not None:
            parts.setdefault(process_group, []).append(i)
    for where, rows in parts.items():
        group = where[0].get_group(where[1]) if isinstance(where, tuple) else where
        for values, how in ((sums, "SUM"), (largest, "MAX")):
            part = values[rows].contiguous()
            torch.distributed.all_reduce(
                part, getattr(torch.distributed.ReduceOp, how), group=group
            )
            values[rows] = part
    return sums, largest
