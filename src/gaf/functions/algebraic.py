"""Algebraic: f(g) = alpha * x / sqrt(1 + x^2) with x = beta * g."""

from __future__ import annotations

from typing import Any

from gaf.functions.base import AlphaBeta, clipped, is_tiny
from gaf.functions.registry import register


@register
class Algebraic(AlphaBeta):
    r"""Algebraic activation, :math:`f(g) = \alpha \beta g / \sqrt{1 + (\beta g)^2}`.

    It nears its bound faster than Arctan and slower than Tanh, and takes a square root and a division.

    Args:
        alpha: the bound; positive and finite.
        beta: sets the width of the linear part; positive and finite.

    Example:
        >>> f = Algebraic(0.1, 20.0)
        >>> f(0.001), f(1e6)
        (0.001999600119..., 0.0999999999...)
        >>> f.slope, f.bound, f.crossover
        (2.0, 0.1, 0.086602540378...)

    Reference:
        ArcGD, arXiv 2512.06737, takes it of the gradient, and adds a floor to the step.
    """

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        x = clipped(xp, beta * g)
        return xp.where(is_tiny(xp, x), (alpha * beta) * g, alpha * (x / xp.sqrt(1 + x * x)))

    @staticmethod
    def formula_derivative(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # alpha beta / (1 + x^2)^(3/2), divided three times so that no power can overflow
        h = xp.hypot(beta * g, xp.ones_like(g))
        return (((alpha * beta) / h) / h) / h

    @staticmethod
    def formula_integral(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # (alpha / beta) (sqrt(1 + x^2) - 1) = alpha |g| x / (1 + sqrt(1 + x^2)), where nothing cancels
        a = xp.abs(g)
        x = clipped(xp, beta * a)
        value = (alpha * a) * (x / (1 + xp.sqrt(1 + x * x)))
        return xp.where(is_tiny(xp, x), 0.5 * ((alpha * beta) * g) * g, value)

    @staticmethod
    def symbolic(g: Any, alpha: Any, beta: Any) -> Any:
        import sympy

        return alpha * beta * g / sympy.sqrt(1 + (beta * g) ** 2)

    @property
    def bound(self) -> float:
        return self.alpha
