"""The constants of Assumptions 3 to 5: ℓ and c where gradients are low, high, and in between.

Low is |g_n| ≤ ε₀, high is |g_n| > ε₂. The band between them is in none of the paper's segments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gaf.lab.theory.staircase import Staircase


@dataclass(frozen=True)
class Segment:
    """The least and greatest slope of a field in each coordinate, (cases, n), on one segment.

    Where the gradient has no values in it, ``least`` is inf and ``greatest`` is −inf.
    """

    least: Tensor
    greatest: Tensor

    @property
    def steepest(self) -> Tensor:
        """The largest slope in size, the Lipschitz constant; −inf where there are no values."""
        return torch.maximum(self.greatest, -self.least)


@dataclass(frozen=True)
class Segments:
    """The slopes of one field by segment."""

    low: Segment
    band: Segment
    high: Segment

    @property
    def lipschitz(self) -> Tensor:
        """ℓ = max ℓ_n over all segments, band included, (cases,)."""
        return self._all("steepest").amax((0, -1))

    @property
    def convexity(self) -> Tensor:
        """c = min c_n over all segments, band included, (cases,)."""
        return self._all("least").amin((0, -1))

    @property
    def lipschitz_skips_band(self) -> Tensor:
        """Assumption 4(b): ℓ_n = max{ℓ_n^L, ℓ_n^H} for all n, (cases,)."""
        ends = torch.maximum(self.low.steepest, self.high.steepest)
        return (self.band.steepest <= ends).all(-1)

    @property
    def convexity_skips_band(self) -> Tensor:
        """Assumption 5(b): c_n = min{c_n^L, c_n^H} for all n, (cases,)."""
        ends = torch.minimum(self.low.least, self.high.least)
        return (self.band.least >= ends).all(-1)

    @property
    def lipschitz_rises(self) -> Tensor:
        """ℓ_n^L < ℓ_n^H for all n, (cases,); never where a coordinate has no high gradient."""
        return (self.low.steepest < self.high.steepest).all(-1)

    @property
    def convexity_rises(self) -> Tensor:
        """c_n^L < c_n^H for all n, (cases,); not where a coordinate has no high gradient."""
        return ((self.low.least < self.high.least) & self.high.least.isfinite()).all(-1)

    def _all(self, end: str) -> Tensor:
        return torch.stack([getattr(part, end) for part in (self.low, self.band, self.high)])


def of_staircase(
    loss: Staircase, derivative: Callable[[Tensor], Tensor], low: Tensor, high: Tensor
) -> Segments:
    """The exact constants of staircase losses, with ε₀ = low and ε₂ = high, (cases,)."""
    return Segments(*(Segment(*part) for part in loss.slopes(derivative, low, high)))


def of_points(gradient: Tensor, slope: Tensor, low: float, high: float) -> Segments:
    """The constants seen at sampled points: gradients and slopes of each coordinate, (points, n)."""
    size = gradient.abs()
    parts = (size <= low, (size > low) & (size <= high), size > high)
    return Segments(
        *(
            Segment(
                torch.where(part, slope, math.inf).amin(0, keepdim=True),
                torch.where(part, slope, -math.inf).amax(0, keepdim=True),
            )
            for part in parts
        )
    )
