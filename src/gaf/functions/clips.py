"""Hard clipping of each element: Clip from above, BiClip from above and below."""

from __future__ import annotations

from typing import Any

from gaf.common.errors import GafError
from gaf.functions.base import INFINITE, Activation, check_positive
from gaf.functions.registry import register


@register
class Clip(Activation):
    r"""Hard clipping, :math:`f(g) = \max(-b, \min(b, g))`: what ``clip_grad_value_`` does.

    Not in the family of Definition 1: f has a kink at the bound and is straight on both sides of it.

    Args:
        bound: where it clips; positive and finite.

    Example:
        >>> f = Clip(0.1)
        >>> f(0.001), f(-1e6)
        (0.001, -0.1)
        >>> f.slope, f.bound, f.crossover  # no gradient is enlarged
        (1.0, 0.1, 0.0)

    Reference:
        ``torch.nn.utils.clip_grad_value_``, which clips gradients only; here momentum and update can be.
    """

    bound: float = 0.1  # type: ignore[assignment]  # the fact of that name

    def check(self) -> None:
        check_positive(self, bound=self.bound)

    @staticmethod
    def formula(xp: Any, g: Any, bound: float) -> Any:
        return xp.clip(g, -bound, bound)

    @staticmethod
    def formula_derivative(xp: Any, g: Any, bound: float) -> Any:
        ones = xp.ones_like(g)
        return xp.where(g == g, xp.where(xp.abs(g) < bound, ones, 0 * ones), g)

    @staticmethod
    def formula_integral(xp: Any, g: Any, bound: float) -> Any:
        a = xp.abs(g)
        return xp.where(a < bound, 0.5 * g * g, bound * (a - 0.5 * bound))

    @staticmethod
    def symbolic(g: Any, bound: Any) -> Any:
        import sympy

        return sympy.Max(-bound, sympy.Min(bound, g))

    @property
    def slope(self) -> float:
        return 1.0


@register
class BiClip(Activation):
    r"""Clipping from above and below: :math:`f(g) = \mathrm{sign}(g) \min(h, \max(l, |g|))`, and 0 stays 0.

    Not in the family of Definition 1: f jumps at 0 and is straight between its kinks. The slope at 0 is
    infinite: no learning rate does the same to small gradients.

    Args:
        low: what smaller gradients become; positive and at most ``high``.
        high: what larger gradients become; finite.

    Example:
        >>> f = BiClip(0.01, 1.0)
        >>> f(0.001), f(0.5), f(-1e6), f(0.0)
        (0.01, 0.5, -1.0, 0.0)
        >>> f.slope, f.bound, f.crossover  # smaller gradients than low are enlarged, none larger is
        (inf, 1.0, 0.01)

    Reference:
        Lee, Zaheer and Li, "Efficient Distributed Optimization under Heavy-Tailed Noise", arXiv 2502.04164,
        where low is called d and high u.
    """

    low: float = 0.01
    high: float = 1.0

    def check(self) -> None:
        check_positive(self, low=self.low, high=self.high)
        if self.low > self.high:
            raise GafError(f"BiClip: low must be at most high, got {self.low} and {self.high}")

    @staticmethod
    def formula(xp: Any, g: Any, low: float, high: float) -> Any:
        a = xp.abs(g)
        value = xp.sign(g) * xp.clip(a, low, high)
        return xp.where(a > 0, value, 0 * g)  # 0 keeps its sign, NaN stays

    @staticmethod
    def formula_derivative(xp: Any, g: Any, low: float, high: float) -> Any:
        a, ones = xp.abs(g), xp.ones_like(g)
        value = xp.where((a > low) & (a < high), ones, 0 * ones)
        return xp.where(g == g, xp.where(g == 0, INFINITE, value), g)

    @staticmethod
    def formula_integral(xp: Any, g: Any, low: float, high: float) -> Any:
        a = xp.abs(g)
        between = 0.5 * a * a + 0.5 * (low * low)
        above = high * (a - 0.5 * high) + 0.5 * (low * low)
        return xp.where(a < low, low * a, xp.where(a < high, between, above))

    @staticmethod
    def symbolic(g: Any, low: Any, high: Any) -> Any:
        import sympy

        return sympy.sign(g) * sympy.Min(high, sympy.Max(low, sympy.Abs(g)))

    @property
    def bound(self) -> float:
        return self.high

    @property
    def crossover(self) -> float:
        return self.low
