"""The built-in functions in mpmath, free of cancellation, and errors in units in the last place."""

from __future__ import annotations

import math

import mpmath
import torch
from mpmath import mpf

import gaf

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


FORMULAS = {
    "value": {gaf.Arctan: arctan, gaf.Tanh: tanh, gaf.Log: log},
    "derivative": {
        gaf.Arctan: arctan_derivative,
        gaf.Tanh: tanh_derivative,
        gaf.Log: log_derivative,
    },
    "integral": {gaf.Arctan: arctan_integral, gaf.Tanh: tanh_integral, gaf.Log: log_integral},
}


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
