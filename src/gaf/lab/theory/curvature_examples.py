"""Theorems 1 to 3 without one assumption each: a case in which the claim is false, or why there is none."""

from __future__ import annotations

import torch
from torch import Tensor

from gaf.functions import AlphaBeta, Arctan, Log
from gaf.lab.theory import curvature as theorems
from gaf.lab.theory.curvature import CurvatureCase, of_points, on_staircase
from gaf.lab.theory.families import one, single
from gaf.lab.theory.staircase import Staircase, steps
from gaf.lab.theory.trials import Example, Trials

Side = tuple[tuple[float, float], ...]  # (curvature, up to which |g|), ...

LOW, HIGH = 0.04, 0.12  # ε₀ and ε₂ for arctan(0.1, 20): f' = 1 at 0.05, crossover at 0.117

FOLLOWS = "There is none: it follows from the others, because f' falls with |g|."
BAND_ABOVE = "In the band between ε₀ and ε₂, f' can be above 1."
BAND_BELOW = "In the band between ε₀ and ε₂, f' can be far below 1."
EQUAL = (
    " Here ζ^G = ζ; while the other assumption on the band holds it cannot be above, so only the strict "
    "inequality is lost. Without both, as printed, it can."
)
NOT_NEEDED = (
    "There is none: ℓ^G ≤ f'(ε₂)ℓ and c^G ≥ f'(ε₀)c, so that ζ^G ≤ ζ f'(ε₂)/f'(ε₀) < ζ for every f "
    "whose slope falls, αβ ≤ 1 included."
)
COUPLED = (
    "f acts by coordinate, so that D·H is not symmetric where H is not diagonal: {}. By coordinate all "
    "other assumptions hold (on a grid of gradients)."
)
NOT_MONOTONE = (
    "its symmetric part has a negative eigenvalue, and the activated field is not even monotone"
)
LARGE_NORM = "f'(g₁) H₁₂ can be larger than all of H"
NOT_CONVEX = (
    "Definition 4 as printed, a ratio of norms, gives c = 1 here and does not see that the gradient falls. "
    "f makes a negative slope steeper, as it does with any slope at low gradients."
)
NO_EXAMPLE = Example(None, FOLLOWS)


def examples(theorem: int) -> dict[str, Example]:
    """For each assumption of a theorem an example without it."""
    return {1: _first, 2: _second, 3: _third}[theorem]()


def _first() -> dict[str, Example]:
    def case(*side: tuple[float, float], high: float = HIGH) -> Trials:
        return by_hand(side, high=high).trials(1)

    wide = steps(((0.5, 0.9), (20.0, 6.06), (1000.0, 7.0)))
    return {
        theorems.SEPARABLE: Example(
            turned(1, Log(1.0, 50.0), wide, 0.05, 0.5, 5.7), COUPLED.format(LARGE_NORM)
        ),
        theorems.RESTRAINED: Example(
            case((1.0, 0.045), (100.0, 0.06), high=0.045),
            "With ε₂ below the crossover, gradients count as high that f still enlarges.",
        ),
        theorems.L_RISES: NO_EXAMPLE,
        theorems.L_RISES_G: Example(
            case((1.0, LOW), (1.2, HIGH), (1.5, 0.2)),
            "The steepest part with low gradients, times αβ, becomes the steepest of all.",
        ),
        theorems.L_BAND: NO_EXAMPLE,
        theorems.L_BAND_G: Example(case((1.0, LOW), (90.0, HIGH), (100.0, 0.2)), BAND_ABOVE),
    }


def _second() -> dict[str, Example]:
    def case(*side: tuple[float, float], f: AlphaBeta | None = None) -> Trials:
        return by_hand(side, f).trials(2)

    return {
        theorems.SEPARABLE: Example(_turned_slightly(2), COUPLED.format(NOT_MONOTONE)),
        theorems.CONVEX: Example(bent(2), NOT_CONVEX),
        theorems.STEEP: Example(
            case((1.0, LOW), (10.0, HIGH), (100.0, 0.2), f=Arctan(0.1, 5.0)),
            "With αβ = 0.5 f lowers every slope, the smallest too.",
        ),
        theorems.C_RISES: NO_EXAMPLE,
        theorems.C_RISES_G: Example(
            case((1.0, LOW), (5.0, HIGH), (6.0, 1.0)),
            "f' falls towards 0 for large gradients and takes c with it.",
        ),
        theorems.C_BAND: NO_EXAMPLE,
        theorems.C_BAND_G: Example(case((1.0, HIGH), (100.0, 0.2)), BAND_BELOW),
    }


def _third() -> dict[str, Example]:
    def case(*side: tuple[float, float]) -> Trials:
        return by_hand(side).trials(3)

    return {
        theorems.SEPARABLE: Example(_turned_slightly(3), COUPLED.format(NOT_MONOTONE)),
        theorems.RESTRAINED: Example(None, NOT_NEEDED),
        theorems.L_RISES: NO_EXAMPLE,
        theorems.L_RISES_G: Example(
            case((50.0, 0.02), (1.0, LOW), (30.0, HIGH), (60.0, 0.13)),
            "The steepest part has low gradients, where f' is largest.",
        ),
        theorems.L_BAND: NO_EXAMPLE,
        theorems.L_BAND_G: Example(case((1.0, LOW), (100.0, 0.2)), BAND_ABOVE + EQUAL),
        theorems.CONVEX: Example(bent(3), NOT_CONVEX),
        theorems.STEEP: Example(None, NOT_NEEDED),
        theorems.C_RISES: NO_EXAMPLE,
        theorems.C_RISES_G: Example(
            case((1.0, LOW), (20.0, HIGH), (100.0, 0.2), (2.0, 2.0)),
            "f' falls towards 0 for large gradients and takes c with it.",
        ),
        theorems.C_BAND: NO_EXAMPLE,
        theorems.C_BAND_G: Example(case((1.0, HIGH), (100.0, 0.2)), BAND_BELOW + EQUAL),
    }


def by_hand(side: Side, f: AlphaBeta | None = None, high: float = HIGH) -> CurvatureCase:
    """A staircase of one coordinate, under arctan(0.1, 20) unless said otherwise."""
    return on_staircase(one(f or Arctan(0.1, 20.0)), steps(side), *single(LOW, high))


#: A gradient that comes back on its way: from, to, and the slope between them.
BENT = (
    *((-0.2, -0.12, 100.0), (-0.12, -0.04, 10.0), (-0.04, 0.02, 1.0)),
    (0.02, -0.02, -2.0),
    *((-0.02, 0.04, 1.0), (0.04, 0.12, 10.0), (0.12, 0.2, 100.0)),
)


def bent(theorem: int) -> Trials:
    """A loss of one coordinate with a hump between two minima, under arctan(0.1, 20)."""
    f = one(Arctan(0.1, 20.0))
    inside = torch.linspace(0, 1, 1002, dtype=torch.float64)[1:-1]
    g = torch.cat([start + inside * (end - start) for start, end, _ in BENT])[:, None]
    h = torch.cat([torch.full_like(inside, slope) for *_, slope in BENT])[:, None]
    plain = of_points(g, h, LOW, HIGH)
    active = of_points(g, f.derivative(g) * h, LOW, HIGH)
    text = "g goes " + ", ".join(f"from {a:g} to {b:g} with slope {s:g}" for a, b, s in BENT)
    return CurvatureCase(f, plain, active, *single(LOW, HIGH), described=lambda _: text).trials(
        theorem
    )


def _turned_slightly(theorem: int) -> Trials:
    loss = steps(((1.0, 0.0375), (1e3, 0.1225), (1e4, 0.2)))
    return turned(theorem, Arctan(0.1, 20.0), loss, 0.01, LOW, HIGH)


def turned(
    theorem: int, f: AlphaBeta, side: Staircase, angle: float, low: float, high: float
) -> Trials:
    """L(w) = S(w') in coordinates w' turned by an angle, S having the same staircase in both of them."""
    functions = one(f)
    reach = side.knots[0, 0, -1].item()
    g = torch.linspace(-reach, reach, 401, dtype=torch.float64)
    h = side.heights[0, 0][torch.searchsorted(side.knots[0, 0, 1:-1].contiguous(), g)]
    t = torch.tensor(angle, dtype=torch.float64)
    q = torch.stack((t.cos(), -t.sin(), t.sin(), t.cos())).reshape(2, 2)
    gradient = torch.cartesian_prod(g, g) @ q.T
    hessian = q @ torch.diag_embed(torch.cartesian_prod(h, h)) @ q.T
    slope = f.derivative(gradient)
    jacobian = slope[..., None] * hessian
    plain, active = (
        of_points(gradient, m.diagonal(dim1=-2, dim2=-1), low, high) for m in (hessian, jacobian)
    )
    setting = CurvatureCase(
        functions, plain, active, *single(low, high), described=lambda _: "", separable=False
    )
    (ell, c), (ell_g, c_g) = fields = [_constants(m) for m in (hessian, jacobian)]
    half = len(side.heights[0, 0]) // 2
    stairs = zip(side.heights[0, 0, half:], side.knots[0, 0, half + 1 :], strict=True)
    curvatures = ", ".join(f"{height:g} to |g| = {end:g}" for height, end in stairs)
    text = (
        f"{functions.named(0)}, ε₀ = {low:g}, ε₂ = {high:g}, turned by {angle:g} rad, curvature "
        f"{curvatures} in both turned coordinates: ℓ = {ell.item():.4g} becomes {ell_g.item():.4g}, "
        f"c = {c.item():.4g} becomes {c_g.item():.4g}"
    )
    return Trials(setting.assumptions(theorem), theorems.claim(theorem, *fields), lambda _: text)


def _constants(jacobian: Tensor) -> tuple[Tensor, Tensor]:
    """ℓ and c over sampled Jacobians of two coordinates, (samples, 2, 2), (1,) each.

    The matrix [[p, q], [r, s]] has the largest singular value (‖(p + s, q − r)‖ + ‖(p − s, q + r)‖)/2, and
    its symmetric part the smallest eigenvalue (p + s − ‖(p − s, q + r)‖)/2.
    """
    p, q, r, s = jacobian.flatten(-2).unbind(-1)
    apart = torch.hypot(p - s, q + r)
    ell = (torch.hypot(p + s, q - r) + apart).amax(0, keepdim=True) / 2
    return ell, (p + s - apart).amin(0, keepdim=True) / 2
