"""Arctan: f(g) = alpha * atan(beta * g)."""

from __future__ import annotations

import math
from typing import Any

from gaf.functions.base import INFINITE, AlphaBeta, is_tiny, log_of_product, where_finite
from gaf.functions.registry import register


@register
class Arctan(AlphaBeta):
    r"""Arctan-type activation, :math:`f(g) = \alpha \arctan(\beta g)`.

    Args:
        alpha: sets the range; positive and finite.
        beta: sets the width of the linear part; positive and finite.

    Example:
        >>> f = Arctan(0.1, 20.0)
        >>> f
        Arctan(alpha=0.1, beta=20.0)
        >>> f(0.001), f(1e6)  # a small gradient doubles, a huge one is restrained
        (0.00199973339..., 0.1570796276...)
        >>> f.slope, f.bound, f.crossover
        (2.0, 0.15707963267948966, 0.116556118520721...)

    Reference:
        Liu et al., "Activated Gradients for Deep Neural Networks", Section III-A.
    """

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        x = beta * g
        return xp.where(is_tiny(xp, x), (alpha * beta) * g, alpha * xp.arctan(x))

    @staticmethod
    def formula_derivative(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # alpha beta / (1 + x^2), divided twice by sqrt(1 + x^2) so that x^2 cannot overflow
        h = xp.hypot(beta * g, xp.ones_like(g))
        return ((alpha * beta) / h) / h

    @staticmethod
    def formula_integral(xp: Any, g: Any, alpha: float, beta: float) -> Any:
        # g f(g) - (alpha / beta) ln sqrt(1 + x^2), the logarithm in the form that suits the size of x
        a = xp.abs(g)
        x = beta * a
        small = xp.where(x < 16, x, 0.0)
        large = xp.where(x < 16, 1.0, where_finite(xp, a))
        log_root = xp.where(
            x < 16,
            0.5 * xp.log1p(small * small),
            log_of_product(xp, beta, large) + 0.5 * xp.log1p((1 / (beta * large)) ** 2),
        )
        curved = a * (alpha * xp.arctan(x)) - (alpha / beta) * log_root
        value = xp.where(is_tiny(xp, x), 0.5 * ((alpha * beta) * g) * g, curved)
        return xp.where(a < INFINITE, value, a)

    @staticmethod
    def symbolic(g: Any, alpha: Any, beta: Any) -> Any:
        import sympy

        return alpha * sympy.atan(beta * g)

    @property
    def bound(self) -> float:
        return self.alpha * math.pi / 2
