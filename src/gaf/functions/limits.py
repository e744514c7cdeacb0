"""The two ends of the family: Line, which f is as beta tends to 0, and Sign, as beta tends to infinity."""

from __future__ import annotations

import math
from typing import Any

from gaf.functions.base import INFINITE, Activation, check_positive
from gaf.functions.registry import register


@register
class Line(Activation):
    r"""A straight line, :math:`f(g) = s g`: the control, which is a learning rate and nothing else.

    What another function of the same slope does better than this one, it does by its curvature. It is no
    member of the family: it bends nowhere, and with a slope above 1 it restrains nothing.

    Args:
        slope: the factor; positive and finite. The default is the slope of the paper's presets.

    Example:
        >>> f = Line(2.0)
        >>> f(0.001), f(1e6)
        (0.002, 2000000.0)
        >>> f.slope, f.bound, f.crossover
        (2.0, inf, inf)

    Reference:
        Liu et al., "Activated Gradients for Deep Neural Networks", Section III-A: near 0 each of their
        functions is this line.
    """

    slope: float = 2.0  # type: ignore[assignment]  # the fact of that name

    def check(self) -> None:
        check_positive(self, slope=self.slope)

    @staticmethod
    def formula(xp: Any, g: Any, slope: float) -> Any:
        return slope * g

    @staticmethod
    def formula_derivative(xp: Any, g: Any, slope: float) -> Any:
        return xp.where(g == g, slope * xp.ones_like(g), g)

    @staticmethod
    def formula_integral(xp: Any, g: Any, slope: float) -> Any:
        return 0.5 * (slope * g) * g

    @staticmethod
    def symbolic(g: Any, slope: Any) -> Any:
        return slope * g

    @property
    def bound(self) -> float:
        return math.inf

    @property
    def crossover(self) -> float:
        return math.inf if self.slope > 1 else 0.0


@register
class Sign(Activation):
    r"""The sign, :math:`f(g) = \alpha\,\mathrm{sign}(g)`, which Tanh tends to as beta tends to infinity.

    A limit of the family and no member of it: f jumps at 0, so it is not differentiable there, and it is
    flat elsewhere, so it is not concave; :func:`gaf.verify` says so. The slope at 0 is infinite: no learning
    rate does the same to small gradients.

    Args:
        alpha: the size of every step; positive and finite.

    Example:
        >>> f = Sign(0.1)
        >>> f(0.001), f(-1e6), f(0.0)
        (0.1, -0.1, 0.0)
        >>> f.slope, f.bound, f.crossover
        (inf, 0.1, 0.1)

    Reference:
        Bernstein et al., "signSGD: Compressed Optimisation for Non-Convex Problems", arXiv 1802.04434.
    """

    alpha: float = 0.1

    def check(self) -> None:
        check_positive(self, alpha=self.alpha)

    @staticmethod
    def formula(xp: Any, g: Any, alpha: float) -> Any:
        return xp.where(xp.abs(g) > 0, alpha * xp.sign(g), 0 * g)  # 0 keeps its sign, NaN stays

    @staticmethod
    def formula_derivative(xp: Any, g: Any, alpha: float) -> Any:
        flat = xp.where(g == 0, INFINITE, xp.zeros_like(g))
        return xp.where(g == g, flat, g)

    @staticmethod
    def formula_integral(xp: Any, g: Any, alpha: float) -> Any:
        return alpha * xp.abs(g)

    @staticmethod
    def symbolic(g: Any, alpha: Any) -> Any:
        import sympy

        return alpha * sympy.sign(g)

    @property
    def bound(self) -> float:
        return self.alpha

    @property
    def crossover(self) -> float:
        return self.alpha
