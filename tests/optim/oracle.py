"""The rules on single float64 numbers, in plain Python, as the judge of everything else.

Written from the paper and torch's documentation, without looking at ``gaf.optim``. Each number carries a
bound of its rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.optim.rounding import UNKNOWN, Rounded, atan, copysign, log1p, maximum, ratio, sqrt, tanh

FUNCTIONS = {
    "arctan": lambda g, alpha, beta: alpha * atan(beta * g),
    "tanh": lambda g, alpha, beta: alpha * tanh(beta * g),
    "log": lambda g, alpha, beta: copysign(alpha * log1p(beta * abs(g)), g),
    "softsign": lambda g, alpha, beta: alpha * ((beta * g) / (1 + beta * abs(g))),
    "algebraic": lambda g, alpha, beta: alpha * ((beta * g) / sqrt(1 + (beta * g) * (beta * g))),
}


@dataclass
class Sgd:
    """v, w of one weight."""

    function: str
    alpha: float
    beta: float
    placement: str
    momentum: float
    dampening: float
    weight_decay: float
    nesterov: bool
    maximize: bool
    w: float
    decoupled: bool = False
    v: float | None = None

    def __post_init__(self) -> None:
        self.w = Rounded(self.w)

    def f(self, x: float) -> float:
        return FUNCTIONS[self.function](x, self.alpha, self.beta)

    def step(self, grad: float, lr: float) -> None:
        grad = Rounded(-grad if self.maximize else grad)
        mu, tau, decay = self.momentum, self.dampening, self.weight_decay * self.w
        if self.decoupled:
            self.w -= lr * decay
            decay = Rounded(0.0)
        if self.placement == "gradient":
            term = self.f(grad) + decay
            self.carry(term, mu, tau)
            self.w -= lr * (term + mu * self.v if self.nesterov else self.v)
        elif self.placement == "momentum":
            term = grad + decay
            self.carry(term, mu, tau)
            self.w -= lr * self.f(term + mu * self.v if self.nesterov else self.v)
        else:
            term = -lr * (grad + decay)
            self.carry(term, mu, tau)
            self.w += self.f(mu * self.v + term if self.nesterov else self.v)

    def carry(self, term: float, mu: float, tau: float) -> None:
        if self.v is None or mu == 0:
            self.v = term
        else:
            self.v = mu * self.v + (1 - tau) * term


@dataclass
class Adam:
    """Adam (or AdamW, when decoupled) of one weight."""

    function: str
    alpha: float
    beta: float
    placement: str
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    decoupled: bool
    amsgrad: bool
    maximize: bool
    w: float
    eps_hat: bool = False
    m: float = Rounded(0.0)
    v: float = Rounded(0.0)
    v_max: float = 0.0
    t: int = field(default=0)

    def __post_init__(self) -> None:
        self.w = Rounded(self.w)

    def step(self, grad: float, lr: float) -> None:
        self.t += 1
        grad = Rounded(-grad if self.maximize else grad)
        g = self.f(grad) if self.placement == "gradient" else grad
        if self.decoupled:
            self.w -= lr * self.weight_decay * self.w
        else:
            g += self.weight_decay * self.w
        b1, b2 = self.betas
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        self.v_max = maximum(self.v_max, self.v)
        v, correction = self.v_max if self.amsgrad else self.v, 1 - b2**self.t
        if self.eps_hat:
            denominator = (sqrt(v) + self.eps) / math.sqrt(correction)
        else:
            denominator = sqrt(v / correction) + self.eps
        direction = ratio(self.m / (1 - b1**self.t), denominator)
        if self.placement == "gradient":
            self.w -= lr * direction
        elif self.placement == "momentum":
            self.w -= lr * self.f(direction)
        else:
            self.w += self.f(-lr * direction)

    def f(self, x: float) -> float:
        if x.error >= UNKNOWN:  # f is bounded
            return Rounded(0.0, self.alpha * math.pi)
        y = FUNCTIONS[self.function](x, self.alpha, self.beta)
        bound = math.inf if self.function == "log" else self.alpha * math.pi / 2
        return Rounded(y, min(y.error, 2 * bound))
