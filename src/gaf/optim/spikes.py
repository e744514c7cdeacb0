r"""Which step is a spike: its size against the running quantile of the steps before it.

With q the quantile of the last sizes that were taken, as an order statistic rounded up (of ten sizes or
fewer the largest), a step of size s is kept out where s is not finite or :math:`s > \mathrm{factor}\, q`.
Sizes that were kept out do not enter q, so spikes make no room for each other; only ``patience`` of them in a
row begin q anew.

:class:`Spikes` decides by numbers on the host. :class:`SpikesOnDevice` does the same over tensors, for a
device that nobody is to wait for, and is judged against it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

# Steps asked for; kept out, by the reason; kept out in a row, and of these the ones that were too large.
COUNTS = ("steps", "nonfinite", "spikes", "in_a_row", "large_in_a_row")


class Spikes:
    """The decisions of one training, and what they rest on.

    Args:
        factor: how many times the quantile is too large.
        quantile: which one.
        window: of how many sizes.
        patience: after so many steps in a row that were too large the next one is taken.
    """

    def __init__(self, factor: float, quantile: float, window: int, patience: int) -> None:
        self.factor, self.quantile = factor, quantile
        self.window, self.patience = window, patience
        self.counts = dict.fromkeys(COUNTS, 0)
        self.sizes: list[float] = []  # oldest first
        self.size, self.limit = math.nan, math.inf  # of the last step

    def keeps_out(self, size: float) -> bool:
        """Whether a step of this size, inf for one that is not finite, is kept out; counts it."""
        counts = self.counts
        rank = math.ceil(self.quantile * (len(self.sizes) - 1))
        self.limit = self.factor * sorted(self.sizes)[rank] if self.sizes else math.inf
        self.size = size
        counts["steps"] += 1
        large = self.limit < size < math.inf
        if large and counts["large_in_a_row"] >= self.patience:
            self.sizes = []
        elif large or size == math.inf:
            counts["spikes" if large else "nonfinite"] += 1
            counts["in_a_row"] += 1
            counts["large_in_a_row"] += large
            return True
        counts["in_a_row"] = counts["large_in_a_row"] = 0
        if size > 0:  # a gradient of 0 tells nothing of the size of others
            self.sizes = [*self.sizes, size][-self.window :]
        return False

    def read(self) -> Spikes:
        return self

    def state_dict(self) -> dict[str, Any]:
        return {"sizes": list(self.sizes), "counts": dict(self.counts)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.sizes = list(state_dict["sizes"][-self.window :])
        self.counts = {name: state_dict["counts"][name] for name in COUNTS}


class SpikesOnDevice:
    """The same on a device: tensors go in and come out.

    Args:
        spikes: the settings.
        device: where.
    """

    def __init__(self, spikes: Spikes, device: torch.device) -> None:
        self.host = spikes
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self._sizes = torch.full((spikes.window,), math.inf, dtype=dtype, device=device)
        # the counts; how many sizes there were since q began; the last size and its limit
        self._numbers = torch.zeros(len(COUNTS) + 3, dtype=dtype, device=device)
        pinned = device.type == "cuda" and torch.cuda.is_available()
        self._copy = torch.zeros(len(COUNTS) + 3, dtype=dtype, pin_memory=pinned)

    @torch.no_grad()
    def keeps_out(self, size: Tensor, skipped: Tensor | None = None) -> Tensor:
        """Whether a step of this size is kept out, as a tensor.

        Args:
            size: inf for one that is not finite.
            skipped: set where another has skipped the step already: then it counts for nothing.
        """
        numbers, sizes, host = self._numbers, self._sizes, self.host
        size = size.to(numbers.dtype)
        steps, nonfinite, spikes, in_a_row, large_in_a_row, seen, *_ = numbers.unbind()
        rank = (host.quantile * (seen.clamp(max=host.window) - 1)).ceil().clamp(min=0).long()
        # places without a size hold inf
        limit = host.factor * sizes.sort().values.gather(0, rank[None])[0]
        unbounded = size.isinf()
        large = (size > limit) & ~unbounded
        anew = large & (large_in_a_row >= host.patience)
        large = large & ~anew
        kept_out = unbounded | large
        seen = torch.where(anew, 0.0, seen)
        kept = torch.where(anew, math.inf, sizes)
        counted = ~kept_out & (size > 0)
        place = (seen % host.window).long()[None]
        kept = kept.scatter(0, place, torch.where(counted, size, kept.gather(0, place)))
        new = torch.stack(
            (
                *(steps + 1, nonfinite + unbounded, spikes + large),
                torch.where(kept_out, in_a_row + 1, 0.0),
                torch.where(kept_out, large_in_a_row + large, 0.0),
                *(seen + counted, size, limit),
            )
        )
        if skipped is not None:
            kept, new = torch.where(skipped, sizes, kept), torch.where(skipped, numbers, new)
        sizes.copy_(kept)
        numbers.copy_(new)
        self._copy.copy_(numbers, non_blocking=True)
        return kept_out

    def read(self) -> Spikes:
        """Counts, size and limit as they were when a copy last arrived; nobody waits for the device."""
        *counts, _, self.host.size, self.host.limit = self._copy.tolist()
        self.host.counts = dict(zip(COUNTS, map(int, counts), strict=True))
        return self.host

    def state_dict(self) -> dict[str, Any]:
        *counts, seen, _, _ = self._numbers.tolist()
        held, window = self._sizes.tolist(), self.host.window
        oldest = int(seen) % window if seen >= window else 0
        sizes = (held[oldest:] + held[:oldest])[: int(seen)]
        return {"sizes": sizes, "counts": dict(zip(COUNTS, map(int, counts), strict=True))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        host = self.host
        host.load_state_dict(state_dict)
        empty = [math.inf] * (host.window - len(host.sizes))
        numbers = [*host.counts.values(), len(host.sizes), host.size, host.limit]
        self._sizes.copy_(torch.tensor([*host.sizes, *empty], dtype=self._sizes.dtype))
        self._numbers.copy_(torch.tensor(numbers, dtype=self._numbers.dtype))
        self._copy.copy_(self._numbers)
