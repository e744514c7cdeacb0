"""Stochastic gradients with known constants, for Assumption 6 of the paper (Bottou, Curtis and Nocedal).

    g(w, ξ) = ∇L(w) (1 + relative · r₀) + additive · r,    r₀ and each element of r being ±1 at random

Its mean is ∇L(w), so that (b) holds with μ = μ_G = 1. Its variance is relative² ‖∇L‖² + n additive², so
that (c) holds with M = n additive² and M_V = relative², both with equality. Two values suffice for a mean
and a variance, and make expectations finite sums.

Mini-batches are the noise of practice. Theorem 4 takes it to be the same with f and without. The stochastic
gradient g is the mean over a mini-batch, and what is stepped along is f(g). Its mean is not f(∇L), as
Assumption 6(b) has it for the equivalent loss with μ = μ_G = 1, and its variance is another one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import torch
from torch import Generator, Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.lab.theory.learning import LogisticRegression


@dataclass(frozen=True)
class GradientNoise:
    """Noise on a gradient of n elements, with the constants of Assumption 6.

    Example:
        >>> noise = GradientNoise(additive=0.5, relative=1.0)
        >>> noise.m(2), noise.m_g
        (0.5, 2.0)
    """

    additive: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        for size in (self.additive, self.relative):
            if not (size >= 0 and math.isfinite(size)):
                raise GafError(f"the size of noise must be 0 or more, got {size}")

    def m(self, n: int) -> float:
        """M of Assumption 6(c): the variance where the gradient is 0."""
        return n * self.additive**2

    @property
    def m_g(self) -> float:
        """M_G = M_V + μ_G²."""
        return self.relative**2 + 1

    def sample(self, gradient: Tensor, generator: Generator) -> Tensor:
        """A stochastic gradient for each gradient, (..., n)."""
        first = _signs((*gradient.shape[:-1], 1), generator)
        others = _signs(gradient.shape, generator)
        return gradient * (1 + self.relative * first) + self.additive * others


def outcomes(gradient: Tensor, additive: Tensor, relative: Tensor) -> Tensor:
    """Every value of a stochastic gradient, all as likely: (cases, n) to (cases, 2^(n+1), n).

    The sizes of the noise are (cases,); their mean over the middle dimension is an exact expectation.
    """
    n = gradient.shape[-1]
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=n + 1)), dtype=gradient.dtype)
    scaled = gradient[:, None, :] * (1 + relative[:, None, None] * signs[:, :1])
    return scaled + additive[:, None, None] * signs[:, 1:]


def _signs(shape: tuple[int, ...] | torch.Size, generator: Generator) -> Tensor:
    return 2.0 * torch.randint(2, tuple(shape), generator=generator, dtype=torch.float64) - 1


BATCH = 32
BATCHES = 16_000
VISITS = (0, 10, 100)  # steps of gradient descent with η = 0.5


@dataclass(frozen=True)
class Noisy:
    """The noise of mini-batches at a point of a training.

    Attributes:
        step: of the training.
        gradient: ‖∇L‖.
        variance: E‖g − E g‖².
        activated_variance: that of f(g).
        bias: ‖E f(g) − f(∇L)‖ / ‖f(∇L)‖; 0 in Theorem 4.
    """

    step: int
    gradient: float
    variance: float
    activated_variance: float
    bias: float


def minibatches(f: Activation, seed: int = 0) -> list[Noisy]:
    """Logistic regression on digits, in mini-batches of 32, at some points of its training."""
    loss = LogisticRegression()
    generator = torch.Generator().manual_seed(seed)
    w = torch.zeros(loss.dimension, dtype=torch.float64)
    points = []
    for step in range(max(VISITS) + 1):
        if step in VISITS:
            points.append(_noise(loss, w, f, step, generator))
        w = w - 0.5 * loss.gradient(w)
    return points


def _noise(
    loss: LogisticRegression, w: torch.Tensor, f: Activation, step: int, generator: Generator
) -> Noisy:
    gradients = loss.gradients(w)  # of the digits
    chosen = torch.randint(len(gradients), (BATCHES, BATCH), generator=generator)
    g = torch.cat([gradients[some].mean(1) for some in chosen.split(1_000)])  # less memory at once
    full = gradients.mean(0)
    active, goal = f(g), f(full)
    # without its part that is linear in g, whose mean is known to be 0: less error of sampling
    bent = active - goal - f.derivative(full) * (g - full)
    bias = (bent.mean(0).norm() / goal.norm()).item()
    before, after = (x.var(0, correction=0).sum().item() for x in (g, active))
    return Noisy(step, full.norm().item(), before, after, bias)
