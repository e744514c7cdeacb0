"""Theorem 6: near a separable saddle, each unstable coordinate has travelled at least as far with f.

Gradient descent w ← w − η f(g) on a coordinate with gradient g = −a w^(p−1), a > 0 and p even, runs away
from 0. While the gradients of plain gradient descent are below the crossover, f adds to every step, and
the coordinate that is ahead has the larger gradient too: by induction it stays ahead. The time to leave
a ball is another matter, see escape.py.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from gaf.functions import AlphaBeta, Arctan
from gaf.lab.theory.families import EPS, FAMILIES, Functions, log_uniform, one, single, uniform
from gaf.lab.theory.trials import Example, Trials

STARTS = 1_000  # for each function, inside the assumptions
OTHERS = 400  # with an assumption broken
STEPS = 200
PARAMETERS = (
    (0.1, 20.0),
    (0.2, 10.0),
    (0.1, 11.0),
    (0.01, 500.0),
    (0.1, 500.0),
)  # αβ from 1.1 to 50
SHALLOW = (0.01, 20.0)  # αβ = 0.2, though β > 1 as the proof asks

STEEP = "αβ > 1"
UNSTABLE = "the coordinate is unstable"
GROWING = "|g| grows with the distance from the saddle"
BELOW = "gradients of plain descent are below ε₃"
SEPARABLE = "L is separable"
PRINTED = (STEEP, BELOW, SEPARABLE)


def theorem_6(f: Functions, scale: Tensor, power: Tensor, start: Tensor, eta: Tensor) -> Trials:
    """Coordinates with gradient scale · w^(power − 1), all of shape (cases,); unstable where scale < 0.

    They are followed while plain descent's gradients are below the crossover, and at most for STEPS.
    Where the first gradient is not below it, or there is no crossover, the first ten steps count.
    """
    below = (scale * start ** (power - 1)).abs() < f.crossover
    crossover = torch.where(below, f.crossover, torch.inf)
    last = torch.where(below, STEPS, 10)
    plain = active = start
    going = torch.ones_like(below)
    behind = torch.zeros_like(start)  # the step at which f was behind, 0 if never
    shown = torch.stack((start, start), -1)
    for k in range(1, STEPS + 1):
        g, g_f = (scale * w ** (power - 1) for w in (plain, active))
        going &= (g.abs() < crossover) & (k <= last)
        if not going.any():
            break
        plain = torch.where(going, plain - eta * g, plain)
        active = torch.where(going, active - eta * f(g_f), active)
        slack = 4 * k * EPS * (plain.abs() + active.abs() + start.abs())
        late = going & ((active - start).abs() < (plain - start).abs() - slack) & (behind == 0)
        behind = torch.where(late, float(k), behind)
        shown = torch.where(late[:, None], torch.stack((plain, active), -1), shown)
    every = torch.ones_like(below)
    return Trials(
        {
            **{STEEP: f.slope > 1, UNSTABLE: scale < 0, GROWING: every},
            **{BELOW: below | (f.slope <= 1), SEPARABLE: every},
        },
        behind == 0,
        lambda i: (
            f"{f.named(i)}, ε₃ = {f.crossover[i]:.4g}, g = {scale[i]:.4g} w^{power[i] - 1:g}, "
            f"η = {eta[i]:.4g}, from w = {start[i]:.4g}: after {behind[i]:g} steps at "
            f"{shown[i, 0]:.4g} without and {shown[i, 1]:.4g} with f"
        ),
    )


def functions() -> list[AlphaBeta]:
    """The functions that are tried: first those with αβ < 1, which Theorem 6 leaves out."""
    settings = [(f, SHALLOW) for f in FAMILIES] + [(f, p) for f in FAMILIES for p in PARAMETERS]
    return [family(*parameters) for family, parameters in settings]


def starts(f: AlphaBeta, generator: Generator) -> Trials:
    """1,000 starts of one function on unstable coordinates, and 400 stable or above the crossover."""
    cases = STARTS + OTHERS
    batch = one(f)[torch.zeros(cases, dtype=torch.long)]
    scale = -log_uniform((0.1, 10.0), (cases,), generator)
    power = torch.where(uniform((cases,), generator) < 0.5, 2.0, 4.0)
    reach = torch.full((cases,), f.crossover or 1 / f.beta, dtype=torch.float64)
    gradient = reach * log_uniform((1e-6, 0.999), (cases,), generator)
    high = uniform((OTHERS,), generator) < 0.5
    gradient[STARTS:] = torch.where(high, reach[STARTS:] * 2, gradient[STARTS:])
    scale[STARTS:] *= torch.where(high, 1.0, -1.0)
    start = (gradient / scale.abs()) ** (1 / (power - 1))
    sign = torch.where(uniform((cases,), generator) < 0.5, 1.0, -1.0)
    eta = log_uniform((0.01, 1.0), (cases,), generator) / scale.abs()
    return theorem_6(batch, scale, power, sign * start, eta)


def examples() -> dict[str, Example]:
    def case(f: AlphaBeta, scale: float, start: float, eta: float) -> Trials:
        return theorem_6(one(f), *single(scale, 2.0, start, eta))

    f = Arctan(0.1, 20.0)
    return {
        STEEP: Example(
            case(Arctan(*SHALLOW), -1.0, 0.01, 0.1),
            "The proof asks for β > 1; it is αβ > 1 that enlarges, and here αβ = 0.2.",
        ),
        UNSTABLE: Example(
            case(f, 1.0, 0.05, 0.9),
            "A stable coordinate is on its way to 0, and with f it can overshoot and come back.",
        ),
        GROWING: Example(
            turning(),
            "Where the gradient falls again on the way to a minimum, f gets there first, passes it and "
            "comes back.",
        ),
        BELOW: Example(case(f, -1.0, 1.0, 0.1), "Beyond the crossover f restrains."),
        SEPARABLE: Example(
            coupled(),
            "Across coordinates f works on both: between two gradients beyond f' = 1 their difference, "
            "which drives the unstable direction, shrinks.",
        ),
    }


def turning() -> Trials:
    """Two steps on L = −w²/2 + w⁴/4, whose gradient falls from w = 0.58 on and is 0 at 1."""
    f, eta, start = Arctan(1.0, 2.0), 0.5, 0.8
    plain = active = torch.tensor(start, dtype=torch.float64)
    below = True
    for _ in range(2):
        g, g_f = (w**3 - w for w in (plain, active))
        below &= bool(g.abs() < f.crossover)
        plain, active = plain - eta * g, active - eta * f(g_f)
    moved = [(w - start).abs().item() for w in (plain, active)]
    text = (
        f"arctan(1, 2), L = −w²/2 + w⁴/4, η = 0.5, from w = 0.8, gradients below ε₃ = {f.crossover:.4g}: "
        f"after two steps it has travelled {moved[0]:.4g} without and {moved[1]:.4g} with f"
    )
    return _trial((f.slope > 1, True, False, below, True), moved[1] >= moved[0], text)


def coupled() -> Trials:
    """One step on L = w₁w₂, which is unstable along w₁ − w₂, from a point with both gradients below ε₃."""
    f, eta = Arctan(0.1, 20.0), 0.1
    w = torch.tensor([0.11, 0.10], dtype=torch.float64)
    g = w.flip(0)  # ∇(w₁w₂) = (w₂, w₁)
    moved = [-eta * (x[0] - x[1]).item() for x in (g, f(g))]
    below = bool((g.abs() < f.crossover).all())
    text = (
        f"arctan(0.1, 20), L = w₁w₂, η = 0.1, from w = (0.11, 0.1), gradients below ε₃ = {f.crossover:.4g}: "
        f"after one step w₁ − w₂ has moved by {moved[0]:.4g} without and {moved[1]:.4g} with f"
    )
    return _trial((f.slope > 1, True, True, below, False), abs(moved[1]) >= abs(moved[0]), text)


def _trial(holds: tuple[bool, ...], claim: bool, text: str) -> Trials:
    """One case by hand."""
    named = (STEEP, UNSTABLE, GROWING, BELOW, SEPARABLE)
    met = {name: torch.tensor([value]) for name, value in zip(named, holds, strict=True)}
    return Trials(met, torch.tensor([claim]), lambda _: text)
