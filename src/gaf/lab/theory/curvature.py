"""Theorems 1 to 3: a GAF lowers ℓ, raises c and lowers ζ = ℓ/c, where curvature rises with the gradient.

The constants of Assumptions 3 to 5 are ℓ and c where gradients are low, high, and in between: low is
|g_n| ≤ ε₀, high is |g_n| > ε₂. The band between them is in none of the paper's segments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Generator, Tensor

from gaf.lab.theory.families import BATCH, FAMILIES, Functions, draw, log_uniform, uniform
from gaf.lab.theory.staircase import Staircase, draw_staircase
from gaf.lab.theory.trials import Trials

DIMENSIONS = (1, 2, 3)

SEPARABLE = "L is separable"
RESTRAINED = "ε₂ > 0 and f(ε₂) ≤ ε₂"
STEEP = "f' > 1 on |g| ≤ ε₀"
L_RISES = "ℓ_n^L < ℓ_n^H"
L_RISES_G = "(ℓ_n^L)^G < (ℓ_n^H)^G"
L_BAND = "ℓ_n = max{ℓ_n^L, ℓ_n^H}"
L_BAND_G = "(ℓ_n)^G = max{(ℓ_n^L)^G, (ℓ_n^H)^G}"
CONVEX = "c > 0: L is strongly convex"
C_RISES = "c_n^L < c_n^H"
C_RISES_G = "(c_n^L)^G < (c_n^H)^G"
C_BAND = "c_n = min{c_n^L, c_n^H}"
C_BAND_G = "(c_n)^G = min{(c_n^L)^G, (c_n^H)^G}"

#: What each theorem assumes in the sound reading.
ASSUMED: dict[int, tuple[str, ...]] = {
    1: (SEPARABLE, RESTRAINED, L_RISES, L_RISES_G, L_BAND, L_BAND_G),
    2: (SEPARABLE, CONVEX, STEEP, C_RISES, C_RISES_G, C_BAND, C_BAND_G),
}
ASSUMED[3] = tuple(dict.fromkeys((*ASSUMED[1], *ASSUMED[2])))
#: Assumptions 4(b) and 5(b) are printed for L alone, and used for the activated gradient as well. That L
#: is convex is meant by Definition 4, which as printed does not see the sign.
PRINTED = {
    theorem: tuple(name for name in names if name not in (L_BAND_G, C_BAND_G))
    for theorem, names in ASSUMED.items()
}


def claim(theorem: int, plain: tuple[Tensor, Tensor], active: tuple[Tensor, Tensor]) -> Tensor:
    """Whether a theorem's claim is true, for (ℓ, c) of the plain and the activated field."""
    (ell, c), (ell_g, c_g) = plain, active
    if theorem == 1:
        return ell_g < ell
    if theorem == 2:
        return c_g > c
    # ζ^G < ζ without a division, which would round; c ≤ 0 makes ζ infinite
    return (c_g > 0) & (ell_g * c < ell * c_g)


@dataclass(frozen=True)
class CurvatureCase:
    """Functions, the constants of plain and activated gradients, and the ends ε₀ and ε₂, (cases,)."""

    f: Functions
    plain: Segments
    active: Segments
    low: Tensor
    high: Tensor
    described: Callable[[int], str]
    separable: bool = True

    def assumptions(self, theorem: int) -> dict[str, Tensor]:
        """Which assumptions of a theorem hold in each case."""
        plain, active = self.plain, self.active
        known = {
            SEPARABLE: torch.full_like(self.low, self.separable, dtype=torch.bool),
            RESTRAINED: (self.high > 0) & (self.f(self.high) <= self.high),
            STEEP: self.f.derivative(self.low) > 1,
            CONVEX: plain.convexity > 0,
            L_RISES: plain.lipschitz_rises,
            L_RISES_G: active.lipschitz_rises,
            L_BAND: plain.lipschitz_skips_band,
            L_BAND_G: active.lipschitz_skips_band,
            C_RISES: plain.convexity_rises,
            C_RISES_G: active.convexity_rises,
            C_BAND: plain.convexity_skips_band,
            C_BAND_G: active.convexity_skips_band,
        }
        return {name: known[name] for name in ASSUMED[theorem]}

    def trials(self, theorem: int) -> Trials:
        """The trials of Theorem 1, 2 or 3."""
        plain, active = ((s.lipschitz, s.convexity) for s in (self.plain, self.active))
        return Trials(self.assumptions(theorem), claim(theorem, plain, active), self.describe)

    def describe(self, case: int) -> str:
        where = f"ε₀ = {self.low[case]:.4g}, ε₂ = {self.high[case]:.4g}"
        ell, ell_g = (s.lipschitz[case] for s in (self.plain, self.active))
        c, c_g = (s.convexity[case] for s in (self.plain, self.active))
        return (
            f"{self.f.named(case)}, {where}, {self.described(case)}: "
            f"ℓ = {ell:.4g} becomes {ell_g:.4g}, c = {c:.4g} becomes {c_g:.4g}"
        )


def on_staircase(f: Functions, loss: Staircase, low: Tensor, high: Tensor) -> CurvatureCase:
    """Staircase losses, whose constants are exact."""
    plain = of_staircase(loss, torch.ones_like, low, high)
    active = of_staircase(loss, f.derivative, low, high)
    return CurvatureCase(f, plain, active, low, high, loss.described)


def random_settings(generator: Generator) -> Iterator[tuple[CurvatureCase, Staircase]]:
    """Random functions, ε₀, ε₂ and losses of one to three coordinates.

    ε₂ is mostly above the crossover and ε₀ mostly where f' > 1, as the theorems ask for.
    """
    for n, family in cycle((n, family) for n in DIMENSIONS for family in FAMILIES):
        f = draw(family, BATCH, generator, slopes=(0.9, 100.0))
        high = f.scale * log_uniform((0.8, 3.0), (BATCH,), generator)
        low = torch.minimum(f.steep_end * (0.05 + uniform((BATCH,), generator)), 0.99 * high)
        loss = draw_staircase(f.derivative, low, high, n, generator)
        yield on_staircase(f, loss, low, high), loss


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
