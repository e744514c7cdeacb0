"""How often the assumptions of Theorems 1 to 4 hold on the problems people meet.

A problem is looked at through its gradients and slopes by coordinate, at many points. A setting is a
function with an ε₀ below which f' > 1 and an ε₂ beyond the crossover, as the theorems ask for: the paper's
presets, and functions whose crossover lies within the gradients that the problem has. Where a loss is not
separable, and where only some coordinates or points are looked at, the shares are estimates; that the loss
is not separable is enough for the theorems not to apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.functions import AlphaBeta
from gaf.lab.theory.bounds import BETTER
from gaf.lab.theory.curvature import ASSUMED, CurvatureCase, claim, of_points
from gaf.lab.theory.families import FAMILIES, PRESETS, one, single
from gaf.lab.theory.learning import (
    LogisticRegression,
    deep_sigmoid,
    digits_loss,
    small_network,
    train,
)
from gaf.lab.theory.problems import (
    PAPER,
    Loss,
    Powers,
    Separable,
    TypeOne,
    TypeTwo,
    conditioned,
    rotated,
)
from gaf.lab.theory.spectrum import HessianProduct

SIDE = {
    True: 500,
    False: 20,
}  # steps from 0 to a side of the box [−1, 1]ⁿ, of a separable loss or not
COORDINATES = 24  # of a network that are looked at
VISITS = (0, 10, 20, 40, 80)  # steps of training before each look
SLOPES = (2.0, 10.0)  # αβ of the functions that are fitted to a problem
CROSSOVERS = (0.3, 0.6)  # of the largest gradient, in the coordinate where that is smallest
LOWS = (0.2, 0.5, 0.9)  # ε₀, as a share of where f' = 1
HIGHS = (1.01, 1.5, 3.0)  # ε₂, as a multiple of the crossover
INSIDE_3 = "the assumptions of Theorem 3"

#: What is looked at on the box, by name.
QUADRATICS: dict[str, Loss] = {
    "the paper's w₁² + 0.2w₂²": PAPER,
    "a quadratic, κ = 10⁴": conditioned(1e4, 10),
    "the paper's, turned by 30°": rotated(PAPER, 30.0),
}
NOT_QUADRATIC: dict[str, Loss] = {
    "w₁⁴ + 0.2w₂⁴": Powers(((4.0, 4.0), (0.8, 4.0))),
    "Type 1": TypeOne((1.0, 0.2)),
    "Type 2": TypeTwo((1.0, 0.2)),
}


@dataclass(frozen=True)
class Seen:
    """Gradients and slopes ∂g_n/∂w_n of a problem by coordinate, (points, n)."""

    problem: str
    where: str
    separable: bool
    gradient: Tensor
    slope: Tensor


@dataclass(frozen=True)
class Practice:
    """In what share of the settings each assumption of a theorem holds on a problem.

    Attributes:
        problem: its name.
        where: at which points it was looked at.
        settings: how many there were.
        holds: the share by assumption.
        every: the share in which all of them hold.
        claim: the share in which the claim is true, whether they hold or not; known where the loss is
            separable, so that ℓ and c are those of the coordinates.
    """

    problem: str
    where: str
    settings: int
    holds: dict[str, float]
    every: float
    claim: float | None


def practice(theorem: int) -> tuple[Practice, ...]:
    """The assumptions of Theorem 1, 2, 3 or 4 on every problem of :func:`problems`.

    Theorem 4 is asked for what it takes over from the others, ζ^G < ζ and c^G > c; what becomes of its
    noise is in noise.py.
    """
    if theorem not in (*ASSUMED, 4):
        raise GafError(f"Theorems 1 to 4 assume something of a loss, Theorem {theorem} does not")
    return tuple(_shares(theorem, seen, settings) for seen, settings in measured())


def _shares(theorem: int, seen: Seen, settings: list[CurvatureCase]) -> Practice:
    rows, claims = [], []
    for setting in settings:
        fields = [(s.lipschitz, s.convexity) for s in (setting.plain, setting.active)]
        if theorem == 4:
            inside = torch.stack(list(setting.assumptions(3).values())).all(0)
            claims.append(claim(3, *fields) & claim(2, *fields))
            rows.append({INSIDE_3: inside, BETTER: claims[-1]})
        else:
            rows.append(setting.assumptions(theorem))
            claims.append(claim(theorem, *fields))
    table = {name: torch.cat([row[name] for row in rows]) for name in rows[0]}
    every = torch.stack(list(table.values())).all(0)
    holds = {name: _share(column) for name, column in table.items()}
    claimed = _share(torch.cat(claims)) if seen.separable else None
    return Practice(seen.problem, seen.where, len(rows), holds, _share(every), claimed)


def _share(where: Tensor) -> float:
    return where.double().mean().item()


@cache
def measured() -> tuple[tuple[Seen, list[CurvatureCase]], ...]:
    """Every problem and its settings."""
    return tuple((seen, list(_settings(seen))) for seen in problems())


def _settings(seen: Seen) -> Iterator[CurvatureCase]:
    largest = seen.gradient.abs().amax(0)
    for f in _functions(largest[largest > 0].min().item()):  # a pixel that is always 0 has none
        functions = one(f)
        slope = f.derivative(seen.gradient) * seen.slope
        steep, crossover = _ends(type(f), f.slope)
        for low, high in product(LOWS, HIGHS):
            ends = f.alpha * steep * low, f.alpha * crossover * high
            plain, active = (of_points(seen.gradient, x, *ends) for x in (seen.slope, slope))
            yield CurvatureCase(
                functions,
                plain,
                active,
                *single(*ends),
                described=lambda _: seen.problem,
                separable=seen.separable,
            )


@cache
def _ends(family: type[AlphaBeta], slope: float) -> tuple[float, float]:
    """Where f' = 1 and the crossover of a function with α = 1; both grow with α at the same αβ."""
    f = one(family(1.0, slope))
    return f.unit_slope.item(), f.crossover.item()


def _functions(largest: float) -> list[AlphaBeta]:
    """The presets, and functions with a crossover inside the gradients of a problem."""
    functions: list[AlphaBeta] = []
    for family in FAMILIES:
        functions += [family(*preset) for preset in PRESETS]
        for slope, share in product(SLOPES, CROSSOVERS):
            alpha = share * largest / _ends(family, slope)[1]
            functions.append(family(alpha, slope / alpha))
    return functions


def problems() -> Iterator[Seen]:
    """Quadratics, separable losses that are none, and what is trained on digits."""
    for name, loss in (QUADRATICS | NOT_QUADRATIC).items():
        yield _on_a_box(name, loss)
    yield _logistic_regression()
    yield _network("a tanh network", small_network())
    yield _network("a deep sigmoid network", deep_sigmoid())


def _on_a_box(name: str, loss: Loss) -> Seen:
    separable = isinstance(loss, Separable)
    steps = SIDE[separable]
    axis = torch.arange(-steps, steps + 1, dtype=torch.float64) / steps  # 0 among them
    where = f"on [−1, 1]^{loss.dimension}"
    if isinstance(loss, Separable):
        w = axis[:, None].expand(-1, loss.dimension)
        return Seen(name, where, True, loss.gradient(w), loss.curvature(w))
    w = torch.cartesian_prod(*[axis] * loss.dimension)
    slope = loss.hessian(w).diagonal(dim1=-2, dim2=-1)
    return Seen(name, where, False, loss.gradient(w), slope)


def _logistic_regression() -> Seen:
    loss = LogisticRegression()
    w = torch.zeros(loss.dimension, dtype=torch.float64)
    points = [w]
    for _ in range(40):
        for _ in range(5):
            w = w - 0.5 * loss.gradient(w)
        points.append(w)
    path = torch.stack(points)
    slope = torch.stack([loss.hessian(point).diagonal() for point in path])
    where = f"on digits, at {len(path)} points of its training"
    return Seen("logistic regression", where, False, loss.gradient(path), slope)


def _network(name: str, model: nn.Module) -> Seen:
    """A network at its start and on the way, by coordinates chosen at random."""
    loss = digits_loss(model)
    size = sum(p.numel() for p in model.parameters())
    chosen = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:COORDINATES]
    units = nn.functional.one_hot(chosen, size).double()
    gradients, slopes = [], []
    for steps in VISITS:
        train(model, loss, steps, lr=0.5)
        curvature = HessianProduct(loss, model.parameters())
        gradients.append(curvature.gradient[chosen])
        slopes.append(torch.stack([unit @ curvature(unit) for unit in units]))
    where = f"on digits, {COORDINATES} of its parameters at {len(VISITS)} points of its training"
    return Seen(name, where, False, torch.stack(gradients), torch.stack(slopes))
