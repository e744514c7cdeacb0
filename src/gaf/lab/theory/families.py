"""Many functions at once: the paper's three families with an α and a β of its own for each case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle

import torch
from torch import Generator, Tensor

from gaf.functions import PAPER as FAMILIES
from gaf.functions import AlphaBeta

PRESETS = ((0.1, 20.0), (0.2, 10.0))  # the two that the paper calls robust
BISECTIONS = 64
BATCH = 5_000  # cases that are drawn at once
EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Functions:
    """One function for each case: f(g) takes g of shape (cases, ...)."""

    family: type[AlphaBeta]
    alpha: Tensor
    beta: Tensor

    def __call__(self, g: Tensor) -> Tensor:
        return self._apply(self.family.formula, g)

    def derivative(self, g: Tensor) -> Tensor:
        return self._apply(self.family.formula_derivative, g)

    def integral(self, g: Tensor) -> Tensor:
        return self._apply(self.family.formula_integral, g)

    @property
    def slope(self) -> Tensor:
        return self.alpha * self.beta

    @cached_property
    def crossover(self) -> Tensor:
        """The g > 0 with f(g) = g, the paper's ε₃; 0 where αβ ≤ 1."""
        return self._last(lambda g: self(g) > g)

    @cached_property
    def unit_slope(self) -> Tensor:
        """The g ≥ 0 up to which f' > 1; 0 where αβ ≤ 1."""
        return self._last(lambda g: self.derivative(g) > 1)

    @property
    def scale(self) -> Tensor:
        """The crossover; where there is none, 1/β."""
        return torch.where(self.slope > 1, self.crossover, 1 / self.beta)

    @property
    def steep_end(self) -> Tensor:
        """The g up to which f' > 1; where there is none, 1/β."""
        return torch.where(self.slope > 1, self.unit_slope, 1 / self.beta)

    def named(self, case: int) -> str:
        """The function of a case as :func:`gaf.parse` reads it."""
        return f"{self.family.name}({self.alpha[case]:.6g}, {self.beta[case]:.6g})"

    def __getitem__(self, cases: Tensor) -> Functions:
        return Functions(self.family, self.alpha[cases], self.beta[cases])

    def _apply(self, formula: Callable[..., Tensor] | None, g: Tensor) -> Tensor:
        assert formula is not None  # the paper's families come with closed forms
        shape = (-1, *(1,) * (g.dim() - 1))
        return formula(torch, g, self.alpha.reshape(shape), self.beta.reshape(shape))

    def _last(self, holds: Callable[[Tensor], Tensor]) -> Tensor:
        """The g up to which something holds that holds on an interval from 0, by bisection."""
        low = torch.full_like(self.beta, -30.0) - self.beta.log()
        high = torch.full_like(self.beta, 60.0) - self.beta.log()
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            inside = holds(middle.exp())
            low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
        return torch.where(self.slope > 1, low.exp(), 0.0)


def draw(
    family: type[AlphaBeta], cases: int, generator: Generator, slopes: tuple[float, float]
) -> Functions:
    """Random α and αβ, evenly in their logarithms; the paper's presets come first where they fit."""
    alpha = log_uniform((1e-3, 10.0), (cases,), generator)
    beta = log_uniform(slopes, (cases,), generator) / alpha
    for case, (a, b) in enumerate(PRESETS):
        if slopes[0] <= a * b <= slopes[1] and case < cases:
            alpha[case], beta[case] = a, b
    return Functions(family, alpha, beta)


def batches(generator: Generator, slopes: tuple[float, float]) -> Iterator[Functions]:
    """Random functions without end, of one family after the other."""
    for family in cycle(FAMILIES):
        yield draw(family, BATCH, generator, slopes)


def one(f: AlphaBeta) -> Functions:
    """A single function as a batch of one."""
    return Functions(type(f), *single(f.alpha, f.beta))


def single(*values: float) -> list[Tensor]:
    """Each number as a batch of one, (1,)."""
    return [torch.tensor([value], dtype=torch.float64) for value in values]


def log_uniform(
    ends: tuple[float, float] | Tensor, shape: tuple[int, ...], generator: Generator
) -> Tensor:
    """Numbers between two positive ends, evenly in their logarithm."""
    low, high = math.log(ends[0]), math.log(ends[1])
    return (low + (high - low) * uniform(shape, generator)).exp()


def uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Numbers in [0, 1), in float64."""
    return torch.rand(shape, generator=generator, dtype=torch.float64)
