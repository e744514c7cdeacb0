"""Definition 1: do the paper's functions meet it, and does each of its clauses say something of its own?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Generator, Tensor

from gaf.functions import Activation, AlphaBeta, Arctan, Log, verify
from gaf.lab.theory.families import (
    BATCH,
    EPS,
    FAMILIES,
    Functions,
    batches,
    log_uniform,
    one,
    single,
    uniform,
)
from gaf.lab.theory.trials import Example, Trials

REACH = (1e-6, 100.0)  # of β|g|: beyond, tanh'' is below what float64 can hold

RANGE = "α > 0"
WIDTH = "β > 0"
NONZERO = "g ≠ 0"
PRINTED = (RANGE, WIDTH)  # the definition asks for g f''(g) < 0 at 0 as well


def definition_1(f: Functions, g: Tensor) -> Trials:
    """Clauses 1b to 4 at one g of shape (cases,) for each function; 1a, smoothness, is for :func:`verify`.

    Clause 3 is read with ε = the crossover: from there on f(g) ≤ g.
    """
    value = f(g)
    slope, bend = f.derivative(g), second_derivative(f, g)
    beyond = g >= f.crossover
    restrained = ~beyond | (value <= g + 4 * EPS * g.abs())
    return Trials(
        {RANGE: f.alpha > 0, WIDTH: f.beta > 0, NONZERO: g != 0},
        (slope > 0) & (f(-g) == -value) & restrained & (g * bend < 0),
        lambda i: (
            f"{f.named(i)} at g = {g[i]:.4g}: f = {value[i]:.4g}, f' = {slope[i]:.4g}, "
            f"g f'' = {g[i] * bend[i]:.4g}"
        ),
    )


def second_derivative(f: Functions, g: Tensor) -> Tensor:
    """f''(g), by differentiating f'."""
    g = g.detach().requires_grad_()
    (bend,) = torch.autograd.grad(f.derivative(g).sum(), g)
    return bend


def random_functions(generator: Generator) -> Iterator[Trials]:
    """Functions of each family at gradients of both signs, some of them 0, some with α < 0 or β < 0."""
    for f in batches(generator, slopes=(0.1, 1e4)):
        g = log_uniform(REACH, (BATCH,), generator) / f.beta
        g = torch.where(uniform((BATCH,), generator) < 0.5, g, -g)
        g = torch.where(uniform((BATCH,), generator) < 0.02, 0.0, g)
        wrong = uniform((BATCH,), generator)
        alpha = torch.where(wrong < 0.05, -f.alpha, f.alpha)
        beta = torch.where(wrong > 0.95, -f.beta, f.beta)
        yield definition_1(Functions(f.family, alpha, beta), g)


def examples() -> dict[str, Example]:
    def case(alpha: float, beta: float, g: float) -> Trials:
        return definition_1(Functions(Arctan, *single(alpha, beta)), *single(g))

    return {
        RANGE: Example(case(-0.1, 20.0, 0.1), "f falls: descent would climb."),
        WIDTH: Example(case(0.1, -20.0, 0.1), "f falls: descent would climb."),
        NONZERO: Example(
            definition_1(one(Arctan(0.1, 20.0)), *single(0.0)),
            "0 · f''(0) is 0, which is not below 0, for any f: clause 4 is read for g ≠ 0. Log's f'' jumps "
            "there, so that it meets clause 1a everywhere except at 0.",
        ),
    }


class Polynomial(AlphaBeta):
    """A formula that needs no namespace is its own symbolic form."""

    @classmethod
    def symbolic(cls, g: Any, alpha: Any, beta: Any) -> Any:
        return cls.formula(None, g, alpha, beta)


class Falling(Polynomial):
    """Increasing is dropped: f(g) = α(βg − (βg)³)."""

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        return alpha * (beta * g - (beta * g) ** 3)


class Lopsided(AlphaBeta):
    """Odd is dropped: f(g) = α atan(βg) for g > 0 and α tanh(βg) below; both bend alike at 0."""

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        return alpha * xp.where(g < 0, xp.tanh(beta * g), xp.arctan(beta * g))


class Growing(AlphaBeta):
    """Restraining is dropped: f(g) = 2g + α atan(βg)."""

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        return 2 * g + alpha * xp.arctan(beta * g)

    @staticmethod
    def symbolic(g: Any, alpha: Any, beta: Any) -> Any:
        import sympy

        return 2 * g + alpha * sympy.atan(beta * g)


class Straight(Polynomial):
    """Concave is dropped: f(g) = αβg with αβ < 1."""

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        return alpha * beta * g


#: For each clause a function that misses it alone.
MISSING: dict[str, tuple[Activation, str]] = {
    "differentiable": (Log(0.1, 20.0), "Log"),
    "increasing": (Falling(1.0, 1.0), "g − g³"),
    "odd": (Lopsided(1.0, 1.0), "atan g for g > 0, tanh g below"),
    "restraining": (Growing(1.0, 1.0), "2g + atan g"),
    "concave": (Straight(0.5, 1.0), "g/2"),
}


@dataclass(frozen=True)
class Met:
    """A function, and which clauses of Definition 1 it misses: those with their reason."""

    function: str
    method: str  # "symbolic" where sympy proved every clause that holds
    missed: dict[str, str]


@cache
def verdicts() -> tuple[Met, ...]:
    """The paper's functions, by proof, and for each clause one that misses it alone."""
    chosen = [(family(0.1, 20.0), family.__name__) for family in FAMILIES[:2]]
    return tuple(_met(f, name) for f, name in [*chosen, *MISSING.values()])


def _met(f: Activation, name: str) -> Met:
    clauses = [clause for clause in verify(f).clauses if clause.name in MISSING]
    methods = {clause.method for clause in clauses if clause.holds}
    return Met(
        name,
        "symbolic" if methods == {"symbolic"} else "numeric",
        {clause.name: clause.detail for clause in clauses if not clause.holds},
    )
