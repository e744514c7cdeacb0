"""Softsign: f(g) = alpha * beta * g / (1 + beta * |g|)."""

from __future__ import annotations

from typing import Any

from gaf.functions.base import INFINITE, AlphaBeta, clipped, is_tiny
from gaf.functions.log import atanh_series, log_of_one_plus
from gaf.functions.registry import register


@register
class Softsign(AlphaBeta):
    r"""Softsign activation, :math:`f(g) = \alpha \beta g / (1 + \beta |g|)`.

    It nears its bound slower than any other bounded function here. Its second derivative jumps at 0, as that
    of Log, so it meets Definition 1 everywhere but there.

    Args:
        alpha: the bound; positive and finite.
        beta: sets the width of the linear part; positive and finite.

    Example:
        >>> f = Softsign(0.1, 20.0)
        >>> f(0.001), f(1e6)
        (0.00196078431..., 0.099999995...)
        >>> f.slope, f.bound, f.crossover
        (2.0, 0.1, 0.04999999...)

    Reference:
        Bergstra et al., "Quadratic Polynomials Learn Better Image Features" (2009), as an activation of
        neurons; on gradients and updates it is one of the ways to clip of the package HeavyBall.
    """

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        x = clipped(xp, beta * g)
        return xp.where(is_tiny(xp, x), (alpha * beta) * g, alpha * (x / (1 + xp.abs(x))))

    @staticmethod
    def formula_derivative(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # alpha beta / (1 + x)^2, divided twice so that the square cannot overflow
        h = 1 + xp.abs(beta * g)
        return ((alpha * beta) / h) / h

    @staticmethod
    def formula_integral(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # (alpha / beta) (x - ln(1 + x)). Below 1 the difference cancels; there, with u = x / (2 + x),
        # ln(1 + x) = 2 atanh(u) makes it
        #   2 u^2 / (1 - u) * (1 - (1 - u) u (1/3 + u^2/5 + u^4/7 + ...)),  u <= 1/3
        a = xp.abs(g)
        x = beta * a
        u, series = atanh_series(xp, x)
        below = (alpha / beta) * (2 * u * u / (1 - u) * (1 - (1 - u) * u * series))
        above = alpha * a - (alpha / beta) * log_of_one_plus(xp, a, beta)
        value = xp.where(x < 1, below, above)
        value = xp.where(is_tiny(xp, x), 0.5 * ((alpha * beta) * g) * g, value)
        return xp.where(a < INFINITE, value, a)

    @staticmethod
    def symbolic(g: Any, alpha: Any, beta: Any) -> Any:
        import sympy

        return alpha * beta * g / (1 + beta * sympy.Abs(g))

    @property
    def bound(self) -> float:
        return self.alpha
