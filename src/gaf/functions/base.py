"""What a gradient activation function is: a frozen value with a formula, and the facts that follow.

A function is one formula over an array namespace ``xp`` (torch, jax.numpy, keras.ops), so that every
framework shares it. A subclass declares its parameters as fields and writes the formula; derivative,
integral, slope, bound and crossover come for free and may be overridden by closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions.lift import elementwise
from gaf.functions.quadrature import derivative_by_autograd, integral_by_quadrature

T = TypeVar("T", Tensor, float)

_FLOAT32 = torch.finfo(
    torch.float32
)  # gradients are computed in it: f(g) there is finite arithmetic


def parameter(owner: Any, name: str) -> float:
    """A parameter of a function or of Auto as a float, or a sentence that names it."""
    value = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{type(owner).__name__}: {name} must be a number, got {type(value).__name__}"
        )
    try:
        return float(value)
    except OverflowError:  # a Python int beyond the floats
        raise GafError(
            f"{type(owner).__name__}: {name} must be finite, got an integer beyond 1e308"
        ) from None


def check_positive(owner: Any, **values: float) -> None:
    """Refuse what is not positive, finite and a normal number of float32."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise GafError(
                f"{type(owner).__name__}: {name} must be positive and finite, got {value}"
            )
        if not _FLOAT32.tiny <= value <= _FLOAT32.max:
            raise GafError(
                f"{type(owner).__name__}: {name} must be within the range of float32, got {value}"
            )


def supremum(f: Callable[[float], float]) -> float:
    """The largest value of an increasing f, by its values far out."""
    # Some formulas are inf / inf at the end, or fall to 0 where a divisor overflows just before it.
    ends = (math.inf, *(2.0**exponent for exponent in range(1023, 0, -50)))
    return max((x for x in map(f, ends) if not math.isnan(x)), default=math.nan)


@dataclass(frozen=True, repr=False)
class Activation:
    """A gradient activation function f, applied to each element.

    Subclasses are declared with :func:`gaf.register`. Their fields are the parameters, and
    ``formula(xp, g, *parameters)`` is f. The closed forms ``formula_derivative`` and
    ``formula_integral`` (same signature) are optional, as is ``symbolic(g, *parameters)``, which
    returns a sympy expression for :func:`gaf.verify`.
    """

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1  # raised when the same text gives other values: a default counts

    formula: ClassVar[Callable[..., Any]]
    formula_derivative: ClassVar[Callable[..., Any] | None] = None
    formula_integral: ClassVar[Callable[..., Any] | None] = None
    symbolic: ClassVar[Callable[..., Any] | None] = None

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, parameter(self, field.name))
        self.check()

    def check(self) -> None:
        """Raise GafError for parameters that f does not allow; every one must be finite."""
        for field in fields(self):
            value = getattr(self, field.name)
            # a comparison, and not math.isfinite, which torch.compile does not follow
            if not -math.inf < value < math.inf:
                raise GafError(f"{type(self).__name__}: {field.name} must be finite, got {value}")

    def __repr__(self) -> str:
        params = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
        return f"{type(self).__name__}({params})"

    @property
    def params(self) -> tuple[float, ...]:
        """The parameters in the order of the formula."""
        return tuple(getattr(self, field.name) for field in fields(self))

    @property
    def terms(self) -> tuple[Activation, ...]:
        """The functions that f is the sum of: itself, unless it was made by ``+``."""
        return (self,)

    def __add__(self, other: Activation) -> Activation:
        """The sum of two functions, a function of the parameters of both: ``gaf.Tanh() + gaf.Log()``."""
        from gaf.functions.sums import sum_of

        return sum_of((self, other)) if isinstance(other, Activation) else NotImplemented

    def __call__(self, g: T) -> T:
        """f(g), for a tensor of any float dtype, complex, sparse COO or DTensor, or for a float."""
        return self._apply(type(self).formula, g)

    def derivative(self, g: T) -> T:
        """f'(g)."""
        if isinstance(g, Tensor) and g.layout == torch.sparse_coo:
            raise TypeError(f"{self.name}: f'(0) is not 0, so f' of a sparse tensor is not sparse")
        return self._apply(type(self).formula_derivative or derivative_by_autograd(self), g)

    def integral(self, g: T) -> T:
        """The potential: the integral of f from 0 to g."""
        return self._apply(type(self).formula_integral or integral_by_quadrature(self), g)

    def _apply(self, formula: Callable[..., Any], g: T) -> T:
        if isinstance(g, Tensor):
            return elementwise(lambda x: formula(torch, x, *self.params), g)
        if isinstance(g, Real):
            x = torch.tensor(float(g), dtype=torch.float64, device="cpu")
            return formula(torch, x, *self.params).item()
        raise TypeError(f"{self.name} takes a tensor or a number, got {type(g).__name__}")

    @property
    def slope(self) -> float:
        """f'(0): how much a vanishing gradient is scaled."""
        return self.derivative(0.0)

    @cached_property
    def bound(self) -> float:
        """The supremum of f, inf where there is none."""
        return supremum(self)

    @cached_property
    def crossover(self) -> float:
        """The g > 0 with f(g) = g: smaller gradients are enlarged, larger ones restrained.

        0.0 when slope <= 1 (no gradient is enlarged), inf when f never falls below the identity.
        """
        if self.slope <= 1:
            return 0.0
        low = high = 1.0
        while self(high) > high:
            high *= 2
            if math.isinf(high):
                return math.inf
        while self(low) <= low:
            low /= 2
            if low == 0:
                return 0.0
        return self._newton(low, high)

    def _newton(self, low: float, high: float) -> float:
        """The root of f(g) - g between low (f above the identity) and high (not above it)."""
        g = high
        for _ in range(200):
            excess = self(g) - g
            if excess > 0:
                low = g
            else:
                high = g
            rate = self.derivative(g) - 1
            step = g - excess / rate if rate else math.nan
            if (
                not low < step < high
            ):  # Newton left the bracket: bisect, on the scale of the numbers
                step = math.sqrt(low) * math.sqrt(high)
            if abs(step - g) <= math.ulp(g) or not low < step < high:
                return step if low <= step <= high else g
            g = step
        return g


@dataclass(frozen=True, repr=False)
class AlphaBeta(Activation):
    """The paper's family: alpha sets the range, beta the width, and alpha * beta is the slope at 0.

    The defaults are the first of the two presets the paper calls robust; the other is (0.2, 10).
    """

    alpha: float = 0.1
    beta: float = 20.0

    def check(self) -> None:
        check_positive(self, alpha=self.alpha, beta=self.beta)
        check_positive(self, **{"alpha * beta": self.slope})

    @property
    def slope(self) -> float:
        return self.alpha * self.beta


@dataclass(frozen=True)
class ScaledCurve:
    """A function of values that an adaptive activation sets, a row of them for each tensor.

    Args:
        formula: f, of the array namespace, g and the values.
        slope: f'(0), of the values.
        bound: the supremum of f, of the values.
    """

    formula: Callable[..., Any]
    slope: Callable[..., Any]
    bound: Callable[..., Any]


class Adaptive(Activation):
    """An activation with state: its values are set for each tensor while training.

    It is given where an activation is given, to an optimizer. ``function`` names the registered function
    whose values it sets, ``curve`` is that function of them. The last ``later`` parameters have defaults:
    checkpoints of earlier versions lack them. ``measures_ratios`` says whether it measures Adam's ratio of
    moments too, whose unit is 1.
    """

    formula: ClassVar[Any] = None
    later: ClassVar[int] = 0
    measures_ratios: ClassVar[bool] = True
    function: str

    def usual_placement(self, rule: str) -> str:
        """Where it acts in a rule, such as ``"adam"``, if nothing else is asked for."""
        return "gradient"

    @property
    def measure(self) -> str | float:
        """What is measured of each tensor: a quantile of magnitudes, or a size by its name."""
        return self.quantile  # type: ignore[attr-defined]

    @property
    def controls(self) -> tuple[Adaptive, ...]:
        """The same scales with other curves, for a comparison; the first is without a bend."""
        return ()

    @property
    def curve(self) -> ScaledCurve:
        """The function of the values that are set for each tensor."""
        raise NotImplementedError

    def factors(self, m: Tensor, size: Tensor, rate: Any) -> tuple[Tensor, Tensor]:
        """The values alpha and beta of tensors.

        Args:
            m: each tensor's running measure.
            size: the root mean square of its weights when it was first seen.
            rate: the learning rate where f gives the step itself, else 1.
        """
        raise NotImplementedError

    def bound_to(self, group: Mapping[str, Any]) -> Adaptive:
        """The same for a parameter group, with what is read off the group filled in."""
        raise NotImplementedError

    @property
    def is_bound(self) -> bool:
        """Whether nothing is left to be read off a group."""
        raise NotImplementedError

    def _apply(self, formula: Callable[..., Any], g: T) -> T:
        raise GafError(
            f"{type(self).__name__} has values of its own for each tensor and step: give it to an optimizer"
        )


# The ends of the range: where a product would underflow or overflow before a formula is taken.

INFINITE = float("inf")

# Below this |beta g| the line slope * g is f(g) to the last bit of a float64, and unlike
# alpha * f(beta g) it keeps gradients so small that beta g alone would be flushed to 0.
TINY = 2.0**-54

# Above this beta |g| the logarithm is taken of a product that is never formed; 1 + x is x there.
HUGE = 2.0**100

# From this |beta g| on a bounded f that nears its bound like 1 / g is at it, to the last bit of a float64;
# its square is still a float32.
FAR = 2.0**60


def is_tiny(xp: Any, x: Any) -> Any:
    return xp.abs(x) < TINY


def clipped(xp: Any, x: Any) -> Any:
    """``x`` between -FAR and FAR: inf becomes a number whose quotients are not NaN; NaN stays."""
    return xp.clip(x, -FAR, FAR)


def log_of_product(xp: Any, beta: float, a: Any) -> Any:
    """ln(beta * a) without forming the product: 2 ln(sqrt(beta) sqrt(a))."""
    return 2 * xp.log(beta**0.5 * xp.sqrt(a))


def where_finite(xp: Any, a: Any) -> Any:
    """``a`` with its infinities replaced by 1, for terms that must not turn inf - inf into NaN."""
    return xp.where(a == INFINITE, 1.0, a)
