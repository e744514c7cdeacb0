"""Float64 numbers that carry a bound on how far another order of the same operations can end from them.

A running error bound: an operation adds ``ULPS`` units in the last place of its result, near 0 the quantum
5e-324 of subnormal numbers, and passes on the errors of its operands, multiplied by its slope.
"""

from __future__ import annotations

import math
from typing import Any

# Half a unit for the rounding here and half a unit there, or one unit each for a function of libm or SLEEF.
# The rest is for a rule that rounds twice where the judge does once (lerp, or alpha * beta formed first).
ULPS = 2.0
UNKNOWN = 1e300  # an error beyond all that follows


class Rounded(float):
    """A number and the bound of its error."""

    error: float

    def __new__(cls, value: float, error: float | None = None) -> Rounded:
        number = super().__new__(cls, value)
        number.error = getattr(value, "error", 0.0) if error is None else error
        return number

    def __neg__(self) -> Rounded:
        return Rounded(-float(self), self.error)

    def __abs__(self) -> Rounded:
        return Rounded(abs(float(self)), self.error)

    def __add__(self, other: float) -> Rounded:
        return _rounded(float(self) + float(other), self.error + _error(other))

    def __sub__(self, other: float) -> Rounded:
        return self + -other

    def __mul__(self, other: float) -> Rounded:
        a, b, error = abs(float(self)), abs(float(other)), _error(other)
        return _rounded(float(self) * float(other), a * error + b * self.error + error * self.error)

    def __truediv__(self, other: float) -> Rounded:
        error, least = _error(other), abs(float(other)) - _error(other)
        quotient = float(self) / float(other)
        # |a' / b' - a / b| <= (|a' - a| + |a / b| |b' - b|) / |b'|
        return _rounded(quotient, (self.error + abs(quotient) * error) / least)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> Rounded:
        return -self + other


def atan(x: Rounded) -> Rounded:
    return _rounded(math.atan(x), x.error / (1 + _least(x) ** 2))


def tanh(x: Rounded) -> Rounded:
    return _rounded(math.tanh(x), x.error / math.cosh(min(_least(x), 300.0)) ** 2)


def log1p(x: Rounded) -> Rounded:
    return _rounded(math.log1p(x), x.error / (1 + _least(x)))


def sqrt(x: Rounded) -> Rounded:
    root = math.sqrt(x)
    return _rounded(root, root - math.sqrt(_least(x)) if _least(x) else math.sqrt(x + x.error))


def ratio(x: Rounded, y: Rounded) -> Rounded:
    """x / y where y may be 0: 0 / 0 is 0, and of a y that rounding may have made 0 nothing is known."""
    if x == 0 and x.error == 0:
        return x
    return x / y if _least(y) > 0 else Rounded(0.0, UNKNOWN)


def copysign(x: Rounded, sign: float) -> Rounded:
    return Rounded(math.copysign(x, sign), x.error)


def maximum(x: float, y: float) -> Rounded:
    return Rounded(max(float(x), float(y)), max(_error(x), _error(y)))


def _rounded(value: float, passed_on: float) -> Rounded:
    return Rounded(value, passed_on + ULPS * math.ulp(value))


def _error(x: Any) -> float:
    return getattr(x, "error", 0.0)


def _least(x: Rounded) -> float:
    """The least magnitude that x may have, where the functions here are steepest."""
    return max(abs(float(x)) - x.error, 0.0)
