"""The ends of the range: where a product would underflow or overflow before the function is taken."""

from __future__ import annotations

from typing import Any

INFINITE = float("inf")

# Below this |beta g| the line slope * g is f(g) to the last bit of a float64, and unlike
# alpha * f(beta g) it keeps gradients so small that beta g alone would be flushed to 0.
TINY = 2.0**-54

# Above this beta |g| the logarithm is taken of a product that is never formed; 1 + x is x there.
HUGE = 2.0**100


def is_tiny(xp: Any, x: Any) -> Any:
    return xp.abs(x) < TINY


def log_of_product(xp: Any, beta: float, a: Any) -> Any:
    """ln(beta * a) without forming the product: 2 ln(sqrt(beta) sqrt(a))."""
    return 2 * xp.log(beta**0.5 * xp.sqrt(a))


def where_finite(xp: Any, a: Any) -> Any:
    """``a`` with its infinities replaced by 1, for terms that must not turn inf - inf into NaN."""
    return xp.where(a == INFINITE, 1.0, a)
