"""Tanh: f(g) = alpha * tanh(beta * g)."""

from __future__ import annotations

import math
from typing import Any

from gaf.functions.base import AlphaBeta, is_tiny
from gaf.functions.registry import register


@register
class Tanh(AlphaBeta):
    r"""Tanh-type activation, :math:`f(g) = \alpha \tanh(\beta g)`.

    Args:
        alpha: the bound; positive and finite.
        beta: sets the width of the linear part; positive and finite.

    Example:
        >>> f = Tanh(0.1, 20.0)
        >>> f(0.001), f(1e6)
        (0.0019997333..., 0.1)
        >>> f.slope, f.bound, f.crossover
        (2.0, 0.1, 0.0957504024077...)

    Reference:
        Liu et al., "Activated Gradients for Deep Neural Networks", Section III-A.
    """

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        x = beta * g
        return xp.where(is_tiny(xp, x), (alpha * beta) * g, alpha * xp.tanh(x))

    @staticmethod
    def formula_derivative(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # alpha beta / cosh(x)^2, divided twice so that cosh^2 cannot overflow
        h = xp.cosh(beta * g)
        return ((alpha * beta) / h) / h

    @staticmethod
    def formula_integral(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # (alpha / beta) ln cosh(x): by sinh below 1, where cosh(x) - 1 would cancel, and above it
        # as x + ln(1 + exp(-2x)) - ln 2, with alpha |g| for the first term, which cannot overflow
        a = xp.abs(g)
        x = beta * a
        s = xp.sinh(xp.where(x < 1, x, 0.0))
        below = (alpha / beta) * (0.5 * xp.log1p(s * s))
        above = alpha * a - (alpha / beta) * (math.log(2) - xp.log1p(xp.exp(-2 * x)))
        value = xp.where(x < 1, below, above)
        return xp.where(is_tiny(xp, x), 0.5 * ((alpha * beta) * g) * g, value)

    @staticmethod
    def symbolic(g: Any, alpha: Any, beta: Any) -> Any:
        import sympy

        return alpha * sympy.tanh(beta * g)

    @property
    def bound(self) -> float:
        return self.alpha
