"""Random separable convex losses, many at once, whose constants are exact.

In each coordinate the gradient g rises through 0 from one side of a box to the other. Its range is cut
into steps, and on each step the curvature dg/dw is one number: a staircase, which comes as close as one
likes to any separable loss that is twice differentiable. On a step from a to b with curvature h the
slope of the activated gradient f(g(w)) is f'(g) h. f' falls with |g|, so that the extremes are at the
ends of the step, and no grid is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Generator, Tensor

from gaf.lab.theory.families import log_uniform, uniform


@dataclass(frozen=True)
class Staircase:
    """Losses by the gradients at which the curvature changes and the curvatures between them.

    Attributes:
        knots: (cases, n, steps + 1), rising, the first below 0 and the last above it.
        heights: (cases, n, steps), positive.
    """

    knots: Tensor
    heights: Tensor

    def slopes(
        self, derivative: Callable[[Tensor], Tensor], low: Tensor, high: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        """The least and greatest slope f'(g) dg/dw, (cases, n), of low, middle and high gradients.

        Low is |g| ≤ ``low``, high is |g| > ``high``, (cases,). Where there is no such gradient the
        least is inf and the greatest −inf. An end that is left out counts: these are infima and
        suprema.
        """
        parts = self._cut(low, high)
        size = parts.knots.abs()
        at = derivative(size)  # f' falls with |g|
        near, far = (x * parts.heights for x in (at[..., :-1], at[..., 1:]))
        near, far = torch.maximum(near, far), torch.minimum(near, far)
        middle = (size[..., :-1] + size[..., 1:]) / 2
        wide = parts.knots.diff(dim=-1) > 0
        low, high = low[:, None, None], high[:, None, None]
        segments = []
        for here in (middle <= low, (middle > low) & (middle <= high), middle > high):
            least = torch.where(here & wide, far, math.inf).amin(-1)
            greatest = torch.where(here & wide, near, -math.inf).amax(-1)
            segments.append((least, greatest))
        return segments

    def _cut(self, low: Tensor, high: Tensor) -> Staircase:
        """The same losses with knots at 0, ±low and ±high, where these are inside."""
        cuts = torch.stack((torch.zeros_like(low), low, -low, high, -high), -1)[:, None]
        cuts = torch.minimum(torch.maximum(cuts, self.knots[..., :1]), self.knots[..., -1:])
        knots = torch.cat((self.knots, cuts), -1).sort(-1).values
        at = _step(self.knots, (knots[..., 1:] + knots[..., :-1]) / 2)
        return Staircase(knots, self.heights.gather(-1, at))

    @cached_property
    def places(self) -> Tensor:
        """The w at each knot, (cases, n, steps + 1): ∫ dg / h, and 0 where the gradient is 0."""
        start = torch.zeros_like(self.knots[..., :1])
        w = torch.cat((start, (self.knots.diff(dim=-1) / self.heights).cumsum(-1)), -1)
        at = _step(self.knots, start)
        return w - _read(self.knots, w, self.heights.reciprocal(), start, at)

    def gradient(self, w: Tensor) -> Tensor:
        """The gradient at w, (cases, n); beyond the box the outer steps go on."""
        return _read(self.places, self.knots, self.heights, w[..., None], None)[..., 0]

    def loss(self, w: Tensor, integral: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """L(w) by coordinate, or the equivalent loss ∫ f(g) dw for the ``integral`` of f, (cases, n)."""
        potential = integral or (lambda g: g**2 / 2)
        g = self.gradient(w)[..., None]
        # ∫ f(g) dw = Σ over the steps between 0 and g of (F(b) − F(a)) / h, F' = f
        low, high = torch.minimum(g, torch.zeros_like(g)), torch.maximum(g, torch.zeros_like(g))
        left, right = self.knots[..., :-1].clone(), self.knots[..., 1:].clone()
        left[..., 0], right[..., -1] = -math.inf, math.inf
        a, b = (torch.minimum(torch.maximum(x, low), high) for x in (left, right))
        return ((potential(b) - potential(a)) / self.heights).sum(-1) * g[..., 0].sign()

    def random_points(self, generator: Generator) -> Tensor:
        """A point inside the box of each loss, (cases, n)."""
        ends = self.places
        share = uniform(tuple(ends.shape[:2]), generator)
        return ends[..., 0] + share * (ends[..., -1] - ends[..., 0])

    def __getitem__(self, cases: Tensor) -> Staircase:
        return Staircase(self.knots[cases], self.heights[cases])

    def described(self, case: int) -> str:
        """The curvature as it changes with g, by coordinate."""
        coordinates = []
        for knots, heights in zip(
            self.knots[case].tolist(), self.heights[case].tolist(), strict=True
        ):
            steps = [f"{knots[0]:.4g}"]
            for height, end in zip(heights, knots[1:], strict=True):
                steps.append(f"[{height:.4g}] {end:.4g}")
            coordinates.append(" ".join(steps))
        return "g [dg/dw]: " + "; ".join(coordinates)


def _step(knots: Tensor, x: Tensor) -> Tensor:
    """The number of the step that x, (..., 1), stands on; the outer ones go on for ever."""
    return torch.searchsorted(knots[..., 1:-1].contiguous(), x.contiguous())


def _read(xs: Tensor, ys: Tensor, rates: Tensor, x: Tensor, at: Tensor | None) -> Tensor:
    """y at x on the line through (xs, ys) with a rate for each step."""
    at = _step(xs, x) if at is None else at
    return ys.gather(-1, at) + rates.gather(-1, at) * (x - xs.gather(-1, at))


def draw_staircase(
    derivative: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, n: int, generator: Generator
) -> Staircase:
    """Random losses of n coordinates, with knots at ±ε₀ = low and ±ε₂ = high, (cases,), among others.

    In a fifth of the cases curvatures are in any order. In the others the slopes of the activated gradient
    rise with |g|, up to a factor, which the theorems ask for and chance seldom meets; in a fifth of all
    except between ε₀ and ε₂, of which the printed assumptions say little.
    """
    cases = len(low)
    share = uniform((cases, n, 6), generator)
    low, high = (end[:, None, None].expand(cases, n, 2) for end in (low, high))
    reach = high * (1 + log_uniform((0.01, 5.0), (cases, n, 2), generator))
    inner = (low * share[..., :2], low + (high - low) * share[..., 2:4])
    outer = high + (reach - high) * share[..., 4:]
    sides = torch.stack((*inner, low, high, outer, reach), -1).sort(-1).values
    knots = torch.cat((-sides[..., 0, :].flip(-1), sides[..., 1, :]), -1)
    middle = (knots[..., 1:] + knots[..., :-1]).abs() / 2
    spread = log_uniform((1.0, 1e3), (cases, n, 1), generator).log()
    heights = spread * uniform(middle.shape, generator)
    rising = torch.empty_like(heights).scatter(-1, middle.argsort(-1), heights.sort(-1).values)
    rising = rising - derivative(middle).clamp_min(1e-200).log()
    least, most = rising.amin(-1, keepdim=True), rising.amax(-1, keepdim=True)
    between = (middle > low[..., :1]) & (middle < high[..., :1])
    band = least + (most - least) * uniform(middle.shape, generator)
    kind = uniform((cases, 1, 1), generator)
    rising = torch.where(between & (kind > 0.8), band, rising)
    heights = torch.where(kind < 0.2, heights, rising)
    return Staircase(knots, heights.exp() * log_uniform((0.1, 10.0), (cases, n, 1), generator))


def steps(*sides: tuple[tuple[float, float], ...]) -> Staircase:
    """One loss by hand, symmetric around 0: for each coordinate (curvature, up to which |g|), ..."""
    knots, heights = [], []
    for side in sides:
        ends = [end for _, end in side]
        knots.append([*(-end for end in reversed(ends)), *ends])
        rising = [height for height, _ in side]
        heights.append([*reversed(rising[1:]), rising[0], *rising[1:]])
    return Staircase(
        torch.tensor([knots], dtype=torch.float64), torch.tensor([heights], dtype=torch.float64)
    )
