"""Is f twice differentiable, seen from its values: how third differences shrink with their step.

Over four points a step h apart, the third difference of f shrinks like h^3 where f is smooth, like h^2
where f'' jumps, like h where f' jumps, and not at all where f jumps.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gaf.functions.definition import Finding
from gaf.functions.numeric import EPS, Samples

BELOW, ABOVE = 1e-6, 1e4  # where to look for kinks, in units of f's own scale and of 1
POINTS = 24  # a window has so many steps; the next is three of them, so it is smaller by 8
SMOOTH = 2.4  # a power of h above this is taken for 3


def differentiable(s: Samples) -> Finding:
    """Look at 0, then search for kinks and jumps elsewhere."""
    if not math.isfinite(s.zero):
        return Finding(False, f"f(0) is {s.zero}", 0.0)
    at_zero, elsewhere = _at_zero(s), _elsewhere(s)
    if not at_zero:
        return elsewhere
    others = "smooth elsewhere, " if elsewhere.holds else f"also at g = {elsewhere.witness:.4g}: "
    return at_zero._replace(detail=f"{at_zero.detail}; {others}{elsewhere.detail}")


def _at_zero(s: Samples) -> Finding | None:
    """Measure the power of h on four points across 0, at the smallest h that rounding permits."""

    def third_difference(h: Tensor) -> Tensor:
        values = {k: s.f(k * h) for k in (-2, -1, 1, 2)}
        rising = values[2] - 3 * values[1] + 3 * s.zero - values[-1]
        falling = values[-2] - 3 * values[-1] + 3 * s.zero - values[1]
        return torch.maximum(rising.abs(), falling.abs())

    h = s.g[s.g <= s.scale]
    size = third_difference(h)
    usable = (size > 1e-12 * s.size) & (size < 1e-9 * s.size)
    if not usable.any():
        if size[0] <= 1e-9 * s.size:
            return None  # straight to rounding
        usable = h < 10 * h[0]
    h = h[usable]
    power = (third_difference(2 * h) / size[usable]).log2().median().item()
    if power > 2.2:
        return None
    if math.isnan(power):
        return Finding(False, "f is infinite around 0", 0.0)
    least, step = s.g[0].item(), h[len(h) // 2].item()
    return _report(s, -least, least, power, (0.0, step, step))


def _elsewhere(s: Samples) -> Finding:
    """Zoom into windows over the range, each time onto the largest third difference in it."""
    starts = torch.cat([s.g[(s.g >= BELOW * x) & (s.g <= ABOVE * x)] for x in {s.scale, 1.0}])[::2]
    low = torch.cat((starts, -1.5 * starts))
    high = torch.cat((1.5 * starts, -starts))
    searched = f"searched for kinks in {starts.min():.1g} <= |g| <= {1.5 * starts.max():.1g}"
    low, high, size, _ = _zoom(s, low, high)
    # for how many zooms third differences have shrunk too slowly, and by which power on average
    suspect, power = torch.zeros_like(low), torch.zeros_like(low)
    rough: list[tuple[float, float, float]] = []
    for level in range(16):
        low_now, high_now, size_now, rounding = _zoom(s, low, high)
        wide = high_now - low_now > 2**10 * EPS * high.abs()
        measured = (size_now > 64 * rounding) & wide
        ended = ~measured & (suspect >= 2)
        rough += zip(low[ended].tolist(), high[ended].tolist(), power[ended].tolist(), strict=True)
        power_now = (size / size_now).log2() / 3
        slow = power_now < SMOOTH
        power = torch.where(slow, (power * suspect + power_now) / (suspect + 1), 0)
        suspect = torch.where(slow, suspect + 1, 0)
        keep = measured & ((suspect > 0) | (level < 2))
        low, high, size = low_now[keep], high_now[keep], size_now[keep]
        suspect, power = suspect[keep], power[keep]
        if not len(low):
            break
    rough += zip(low.tolist(), high.tolist(), power.tolist(), strict=True)
    if not rough:
        return Finding(True, searched)
    low_at, high_at, power_at = min(rough, key=lambda window: abs(window[0]))
    return _report(s, low_at, high_at, power_at, (0.0, 1e-6 * abs(low_at), 1e-3 * abs(low_at)))


def _zoom(s: Samples, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The four points of each window with the largest third difference, its size, and rounding."""
    points = low[:, None] + (high - low)[:, None] * torch.linspace(
        0, 1, POINTS + 1, dtype=torch.float64
    )
    values = s.f(points)
    size, at = values.diff(n=3).abs().max(dim=1)
    at = at[:, None]
    rounding = EPS * (s.size + values.abs().amax(dim=1))
    return points.gather(1, at)[:, 0], points.gather(1, at + 3)[:, 0], size, rounding


def _report(s: Samples, low: float, high: float, power: float, steps: tuple[float, ...]) -> Finding:
    """Say what jumps between low and high: f, f' or f'', by differences over steps[order]."""
    order = min(max(math.ceil(power - 0.25), 0), 2)
    which = "f" + "'" * order
    where = (low + high) / 2
    if where == 0 and power < order - 0.25:
        return Finding(False, f"{which} grows without bound", where)
    before, after = (
        _derivative(s, at, k * steps[order], order) for at, k in ((low, -1), (high, 1))
    )
    digits = 4 if order == 2 else 7  # a second difference has no more
    return Finding(False, f"{which} jumps from {before:+.{digits}g} to {after:+.{digits}g}", where)


def _derivative(s: Samples, at: float, step: float, order: int) -> float:
    """The derivative of that order at ``at`` from three points, on the side to which step points."""
    a, b, c = s.f(at + step * torch.arange(3, dtype=torch.float64)).tolist()
    return a if order == 0 else (b - a) / step if order == 1 else (c - 2 * b + a) / step / step
