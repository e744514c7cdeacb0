"""The built-in functions in mpmath, free of cancellation, and errors in units in the last place."""

from __future__ import annotations

import math

import mpmath
import torch
from mpmath import mpf

import gaf
from gaf.functions import AlphaBeta

DIGITS = 50


def arctan(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * mpmath.atan(beta * g)


def arctan_derivative(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * beta / (1 + (beta * g) ** 2)


def arctan_integral(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    x = beta * g  # x atan(x) is about twice ln(1 + x^2) / 2 where x is small: no digits are lost
    return alpha / beta * (x * mpmath.atan(x) - mpmath.log1p(x**2) / 2)


def tanh(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * mpmath.tanh(beta * g)


def tanh_derivative(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * beta * mpmath.sech(beta * g) ** 2


def tanh_integral(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    x = beta * g  # cosh(x) = 1 + 2 sinh(x / 2)^2
    return alpha / beta * mpmath.log1p(2 * mpmath.sinh(x / 2) ** 2)


def log(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * mpmath.sign(g) * mpmath.log1p(beta * abs(g))


def log_derivative(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * beta / (1 + beta * abs(g))


def log_integral(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    x = beta * abs(g)
    if x < mpf(10) ** -15:  # (1 + x) ln(1 + x) - x, of which the next term is x^5 / 20
        return alpha / beta * (x**2 / 2 - x**3 / 6 + x**4 / 12)
    return alpha / beta * ((1 + x) * mpmath.log1p(x) - x)


def softsign(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * beta * g / (1 + beta * abs(g))


def softsign_derivative(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * beta / (1 + beta * abs(g)) ** 2


def softsign_integral(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    x = beta * abs(g)
    if x < mpf(10) ** -15:  # x - ln(1 + x), of which the next term is x^5 / 5
        return alpha / beta * (x**2 / 2 - x**3 / 3 + x**4 / 4)
    return alpha / beta * (x - mpmath.log1p(x))


def algebraic(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * beta * g / mpmath.sqrt(1 + (beta * g) ** 2)


def algebraic_derivative(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * beta / mpmath.sqrt(1 + (beta * g) ** 2) ** 3


def algebraic_integral(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    x = beta * g  # sqrt(1 + x^2) - 1
    return alpha / beta * (x**2 / (1 + mpmath.sqrt(1 + x**2)))


def asinh(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * mpmath.sign(g) * asinh_of(beta * abs(g))


def asinh_of(x: mpf) -> mpf:
    return mpmath.log1p(x + x**2 / (1 + mpmath.sqrt(1 + x**2)))  # mpmath's own cancels near 0


def asinh_derivative(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    return alpha * beta / mpmath.sqrt(1 + (beta * g) ** 2)


def asinh_integral(alpha: mpf, beta: mpf, g: mpf) -> mpf:
    x = beta * abs(g)
    return alpha / beta * (x * asinh_of(x) - x**2 / (1 + mpmath.sqrt(1 + x**2)))


def biclip(low: mpf, high: mpf, g: mpf) -> mpf:
    return mpmath.sign(g) * min(max(abs(g), low), high)


def biclip_integral(low: mpf, high: mpf, g: mpf) -> mpf:
    a, middle = abs(g), min(max(abs(g), low), high)
    return low * min(a, low) + (middle**2 - low**2) / 2 + high * max(a - high, 0)


# value, derivative and integral of each
EXACT = {
    gaf.Arctan: (arctan, arctan_derivative, arctan_integral),
    gaf.Tanh: (tanh, tanh_derivative, tanh_integral),
    gaf.Log: (log, log_derivative, log_integral),
    gaf.Softsign: (softsign, softsign_derivative, softsign_integral),
    gaf.Algebraic: (algebraic, algebraic_derivative, algebraic_integral),
    gaf.Asinh: (asinh, asinh_derivative, asinh_integral),
    gaf.Line: (lambda s, g: s * g, lambda s, g: s, lambda s, g: s * g**2 / 2),
    gaf.Sign: (lambda a, g: a * mpmath.sign(g), lambda a, g: mpf(0), lambda a, g: a * abs(g)),
    gaf.Clip: (
        lambda b, g: min(max(g, -b), b),
        lambda b, g: mpf(abs(g) < b),
        lambda b, g: min(abs(g), b) ** 2 / 2 + b * max(abs(g) - b, 0),
    ),
    gaf.BiClip: (biclip, lambda low, high, g: mpf(low < abs(g) < high), biclip_integral),
}
FORMULAS = {
    what: {cls: formulas[index] for cls, formulas in EXACT.items()}
    for index, what in enumerate(("value", "derivative", "integral"))
}
CURVED = tuple(cls for cls in EXACT if issubclass(cls, AlphaBeta))


def exact(f: gaf.Activation, what: str, g: float) -> mpf:
    """f, f' or its integral at g, to many more digits than any dtype has."""
    with mpmath.workdps(DIGITS):
        return FORMULAS[what][type(f)](*map(mpf, f.params), mpf(g))


def error_in_ulp(computed: float, expected: mpf, dtype: torch.dtype) -> float:
    """|computed - expected| in units in the last place of expected.

    A subnormal number has the unit of the smallest one; an infinity stands for the power of two
    that is the first number beyond the range.
    """
    info = torch.finfo(dtype)
    digits, lowest, end = (math.frexp(x)[1] for x in (info.eps, info.tiny, info.max))
    with mpmath.workdps(DIGITS):
        _, exponent = mpmath.frexp(expected)  # |expected| is in [2^(exponent - 1), 2^exponent)
        unit = mpf(2) ** (max(int(exponent), lowest) + digits - 2)
        if math.isinf(computed):
            beyond = mpf(2) ** end
            expected = min(max(expected, -beyond), beyond)
            return float(abs(math.copysign(1, computed) * beyond - expected) / unit)
        return float(abs(mpf(computed) - expected) / unit)
