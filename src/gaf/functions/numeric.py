"""Definition 1 by values alone: for a function of which nothing is known but how to compute it.

Differences of f on a grid that is even in log |g| stand for its derivatives: by the mean value theorem
a second difference of the wrong sign is f'' of the wrong sign somewhere between the points. A
difference below the rounding of f says nothing, and the finding names the range it speaks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions.definition import Finding

EPS = 2.0**-52
PER_DECADE = 32
REACH = 1e30  # how far from f's own scale to look; powers of such numbers are still finite


@dataclass(frozen=True)
class Samples:
    """f(g) and f(-g) on a grid of g > 0, and f(0).

    ``scale`` is the g at which f has bent, to a power of ten (1 if it never does), and ``size`` is
    |f| there: an intermediate of that size costs ``EPS * size`` however small f itself is.
    """

    f: Callable[[Tensor], Tensor]
    g: Tensor
    right: Tensor
    left: Tensor
    zero: float
    scale: float
    size: float

    def rounding(self, *values: Tensor) -> Tensor:
        """What rounding can do to a sum of values of f."""
        total = torch.tensor(self.size, dtype=torch.float64)
        return 16 * EPS * sum((v.abs() for v in values), total)

    def nearest(self, where: Tensor, g: Tensor) -> float:
        """Of the g marked, the one nearest to f's own scale: the clearest witness."""
        marked = g[where]
        return marked[(marked.abs() / self.scale).log().abs().argmin()].item()


def sample(function: Callable[[Tensor], Tensor]) -> Samples:
    """Evaluate f in float64 from far below to far above its own scale."""

    def f(g: Tensor) -> Tensor:
        with torch.no_grad():
            value = function(g)
        if value.shape != g.shape:
            raise GafError(f"f of shape {tuple(g.shape)} has shape {tuple(value.shape)}")
        return value.to(torch.float64)

    zero = f(torch.zeros(1, dtype=torch.float64)).item()
    scale = _own_scale(f, zero)
    at_scale = torch.tensor([scale, -scale], dtype=torch.float64)
    size = f(at_scale).abs().max().item()
    size = size if math.isfinite(size) else 1.0
    low, high = min(scale, 1.0), max(scale, 1.0, size)
    g = _decades(max(low / REACH, 1e-307), min(high, 1e307 / REACH) * REACH)
    return Samples(f, g, f(g), f(-g), zero, scale, size)


def _own_scale(f: Callable[[Tensor], Tensor], zero: float) -> float:
    """Where the chord from 0 to f(g) is halfway between its steepest and its last, to a power of ten."""
    wide = _decades(1e-300, 1e300)
    chord = (f(wide) - (zero if math.isfinite(zero) else 0.0)) / wide
    finite = chord.isfinite().cumprod(0).bool()
    wide, chord = wide[finite], chord[finite]
    # The median over two decades: where f is all rounding, some chords are three times too steep.
    window = 2 * PER_DECADE + 1
    if len(chord) < 2 * window:
        return 1.0
    chord = chord.unfold(0, window, 1).median(dim=1).values
    chord = -chord if -chord.min() > chord.max() else chord
    high, low = chord.max(), chord[int(chord.argmax()) :].min()
    last = int((chord >= (high + low) / 2).nonzero().max())
    if high - low <= 1e-9 * high or not window < last < len(chord) - 1:
        return 1.0  # f bends at no scale, like 2 g, or at all, like the sign of g or g^3
    return 10.0 ** round(math.log10(wide[last + PER_DECADE].item()))


def _decades(low: float, high: float) -> Tensor:
    """Powers of 10 ** (1 / PER_DECADE) from low to high, powers of ten exactly as Python has them."""
    first, last = (round(math.log10(end) * PER_DECADE) for end in (low, high))
    return torch.tensor(
        [10.0 ** (k / PER_DECADE) for k in range(first, last + 1)], dtype=torch.float64
    )


def undefined(s: Samples) -> Finding | None:
    """A g at which f is not a number; no clause about all g can hold then."""
    if math.isnan(s.zero):
        return Finding(False, "f(0) is NaN", 0.0)
    for g, values in ((s.g, s.right), (-s.g, s.left)):
        if values.isnan().any():
            witness = s.nearest(values.isnan(), g)
            return Finding(False, f"f({witness:.4g}) is NaN", witness)
    return None


def increasing(s: Samples) -> Finding:
    """Compare neighbours on the grid; what rounding can do is no fall."""
    zero = torch.tensor([s.zero], dtype=torch.float64)
    g = torch.cat((-s.g.flip(0), zero * 0, s.g))
    values = torch.cat((s.left.flip(0), zero, s.right))
    a, b = values[:-1], values[1:]
    falls = a - b > s.rounding(a, b)  # inf - inf is NaN and no fall
    if not falls.any():
        return Finding(True, f"up to |g| = {s.g[-1].item():.1g}")
    start = s.nearest(falls, g[:-1])
    index = int((g == start).nonzero())
    return Finding(False, f"f falls to {b[index]:.4g} at g = {g[index + 1]:.4g}", start)


def odd(s: Samples) -> Finding:
    """Compare f(-g) with -f(g), and f(0) with 0."""
    if abs(s.zero) > s.rounding():
        return Finding(False, f"f(0) = {s.zero:.4g}", 0.0)
    differs = (s.right != -s.left) & ~((s.right + s.left).abs() <= s.rounding(s.right, s.left))
    if not differs.any():
        return Finding(True, f"up to |g| = {s.g[-1].item():.1g}")
    g = s.nearest(differs, s.g)
    index = int((s.g == g).nonzero())
    return Finding(
        False, f"f({g:.7g}) = {s.right[index]:.7g}, f({-g:.7g}) = {s.left[index]:.7g}", g
    )


def restraining(s: Samples) -> Finding:
    """Find the last g with f(g) > g; the next one is an eps."""
    g = _decades(s.g[0].item(), 1e307)
    value = s.f(g)
    end = int(value.isfinite().nonzero().max()) + 1 if value.isfinite().any() else 1
    g, value = g[:end], value[:end]  # up to where f overflows
    above = value - g > 16 * EPS * g
    if not above.any():
        return Finding(True, f"eps = 0, up to g = {g[-1]:.1g}")
    last = int(above.nonzero().max())
    eps = g[min(last + 1, len(g) - 1)].item()
    # where f(g) comes back to g only when g is so large that rounding hides the rest, it never does
    hidden = (value[-1] - g[-1]).abs() <= 16 * EPS * g[-1]
    if above[-1] or (hidden and eps > 1e8 * max(s.scale, s.size, 1.0)):
        at = s.nearest(above, g)
        shown = f"f({at:.4g}) = {value[g == at].item():.4g}, and f(g) > g as far as {g[last]:.1g}"
        return Finding(False, shown, at)
    return Finding(True, f"eps = {eps:.4g}, up to g = {g[-1]:.1g}")


def concave(s: Samples) -> Finding:
    """Look at the sign of second differences, wherever they stand out of the rounding."""
    width = s.g[1:] - s.g[:-1]
    middle = s.g[1:-1]
    checked = []
    for side, values in ((1.0, s.right), (-1.0, s.left)):
        a, b, c = values[:-2], values[1:-1], values[2:]
        bend = side * ((c - b) * (width[:-1] / width[1:]) - (b - a))  # of the sign of g f''(g)
        strength = bend.abs() / s.rounding(a, b, c)
        seen = strength > 4
        if (seen & (bend > 0)).any():
            g = s.nearest(seen & (bend > 0), side * middle)
            curvature = side * (2 * bend / width[:-1] / (width[:-1] + width[1:]))
            return Finding(
                False, f"f'' = {curvature[middle == abs(g)].item():.4g} there, of the sign of g", g
            )
        if not seen.any():
            return Finding(False, "f'' = 0 to rounding: f is a straight line", side * s.scale)
        flat = _flat_stretch(strength, seen)
        if flat is not None:
            return Finding(
                False, "f'' = 0 there: f is straight for a stretch", side * middle[flat].item()
            )
        checked += [middle[seen][0].item(), middle[seen][-1].item()]
    low, high = max(checked[0::2]), min(checked[1::2])
    return Finding(True, f"for {low:.1g} <= |g| <= {high:.1g}; f'' is below rounding outside")


def _flat_stretch(strength: Tensor, seen: Tensor) -> int | None:
    """Where f does not bend although it does on both sides, or does nearer to 0 than rounding allows.

    Near 0 a smooth f bends like a power of g, so its bend comes out of the rounding slowly. Beyond
    the last bend f may be saturated, which is no fault.
    """
    bends = seen.nonzero().flatten()
    gaps = bends[1:] - bends[:-1]
    if len(gaps) and gaps.max() > PER_DECADE // 4:
        at = int(gaps.argmax())
        return int(bends[at] + gaps[at] // 2)
    first = int(bends[0])
    soon = strength[first : first + PER_DECADE].max()
    return max(first - PER_DECADE // 4, 0) if first and soon > 1e10 else None
