"""Log: f(g) = alpha * sign(g) * ln(1 + beta * |g|)."""

from __future__ import annotations

import math
from typing import Any

from gaf.functions.base import HUGE, AlphaBeta, is_tiny, log_of_product
from gaf.functions.registry import register


def log_of_one_plus(xp: Any, a: Any, beta: float) -> Any:
    """ln(1 + beta * a) for a >= 0, also where beta * a is too large to be represented."""
    x = beta * a
    huge = xp.where(x < HUGE, 1.0, a)
    return xp.where(x < HUGE, xp.log1p(x), log_of_product(xp, beta, huge))


def atanh_series(xp: Any, x: Any) -> tuple[Any, Any]:
    """u = x / (2 + x), where ln(1 + x) = 2 atanh(u), and 1/3 + u^2/5 + u^4/7 + ...; u is 0 from x = 1 on."""
    small = xp.where(x < 1, x, 0.0)
    u = small / (2 + small)
    series = 0.0 * u
    for odd in range(35, 2, -2):
        series = series * (u * u) + 1 / odd
    return u, series


@register
class Log(AlphaBeta):
    r"""Log-type activation, :math:`f(g) = \alpha\,\mathrm{sign}(g) \ln(1 + \beta |g|)`; unbounded.

    Its second derivative jumps at 0, so it meets Definition 1 everywhere but there.

    Args:
        alpha: scales the result; positive and finite.
        beta: sets the width of the linear part; positive and finite.

    Example:
        >>> f = Log(0.1, 20.0)
        >>> f(0.001), f(1e6)
        (0.0019802627..., 1.6811242...)
        >>> f.slope, f.bound, f.crossover
        (2.0, inf, 0.125643120862...)

    Reference:
        Liu et al., "Activated Gradients for Deep Neural Networks", Section III-A.
    """

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        a = xp.abs(g)
        curved = xp.sign(g) * (alpha * log_of_one_plus(xp, a, beta))
        return xp.where(is_tiny(xp, beta * a), (alpha * beta) * g, curved)

    @staticmethod
    def formula_derivative(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # alpha beta / (1 + x), and alpha / |g| where x = beta |g| is too large to be represented
        a = xp.abs(g)
        x = beta * a
        huge = xp.where(x < HUGE, 1.0, a)
        return xp.where(x < HUGE, (alpha * beta) / (1 + x), alpha / huge)

    @staticmethod
    def formula_integral(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # (alpha / beta) ((1 + x) ln(1 + x) - x). Below 1 the difference cancels; there, with
        # u = x / (2 + x), ln(1 + x) = 2 atanh(u) makes it a sum of positive terms:
        #   2 u^2 / (1 - u) * (1 + (1 + u) u (1/3 + u^2/5 + u^4/7 + ...)),  u <= 1/3
        a = xp.abs(g)
        x = beta * a
        u, series = atanh_series(xp, x)
        below = (alpha / beta) * (2 * u * u / (1 - u) * (1 + (1 + u) * u * series))
        log = log_of_one_plus(xp, a, beta)
        above = a * (alpha * (log - 1)) + (alpha / beta) * log
        value = xp.where(x < 1, below, above)
        return xp.where(is_tiny(xp, x), 0.5 * ((alpha * beta) * g) * g, value)

    @staticmethod
    def symbolic(g: Any, alpha: Any, beta: Any) -> Any:
        import sympy

        return alpha * sympy.sign(g) * sympy.log(1 + beta * sympy.Abs(g))

    @property
    def bound(self) -> float:
        return math.inf
