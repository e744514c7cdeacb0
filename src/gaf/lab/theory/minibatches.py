"""What f does to the noise of mini-batches: Theorem 4 takes it to be the same with f and without.

The stochastic gradient g is the mean over a mini-batch, and what is stepped along is f(g). Its mean is not
f(∇L), as Assumption 6(b) has it for the equivalent loss with μ = μ_G = 1, and its variance is another one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator

from gaf.functions import Activation
from gaf.lab.theory.learning import LogisticRegression

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
    found = []
    for step in range(max(VISITS) + 1):
        if step in VISITS:
            found.append(_noise(loss, w, f, step, generator))
        w = w - 0.5 * loss.gradient(w)
    return found


def _noise(
    loss: LogisticRegression, w: torch.Tensor, f: Activation, step: int, generator: Generator
) -> Noisy:
    each = loss.gradients(w)  # of the digits
    chosen = torch.randint(len(each), (BATCHES, BATCH), generator=generator)
    g = torch.cat([each[some].mean(1) for some in chosen.split(1_000)])  # less memory at once
    full = each.mean(0)
    active, goal = f(g), f(full)
    # without its part that is linear in g, whose mean is known to be 0: less error of sampling
    bent = active - goal - f.derivative(full) * (g - full)
    bias = (bent.mean(0).norm() / goal.norm()).item()
    before, after = (x.var(0, correction=0).sum().item() for x in (g, active))
    return Noisy(step, full.norm().item(), before, after, bias)
