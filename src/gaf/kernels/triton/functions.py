"""The formulas for Triton, in ``triton.language`` primitives only, and how they become its functions.

They share their names with the Python functions, and in float32 their steps and coefficients with
csrc/functions.h, where the error of each fit is noted. ``alpha`` and ``beta`` are float64 numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

tl: Any = None  # triton.language, once load has run

# Annotations that Triton reads: a value known when compiling, and a number not to be rounded to float32.
constexpr = float64 = Any

_MARKED: list[Callable[..., Any]] = []


def jit(function: Callable[..., Any]) -> Any:
    """Mark a function for ``triton.jit``, which is put off until :func:`load`."""
    _MARKED.append(function)
    return function


@functools.cache
def load() -> bool:
    """Import Triton and make its functions of the marked ones; whether it interprets them."""
    triton, language = import_module("triton"), import_module("triton.language")
    jitted = {f: triton.jit(f, do_not_specialize=["count"]) for f in _MARKED}
    names = {"tl": language, "constexpr": language.constexpr, "float64": language.float64}
    for module in map(import_module, dict.fromkeys(f.__module__ for f in _MARKED)):
        for name, value in list(vars(module).items()):
            if callable(value) and value in jitted:  # where it is written, and where it is imported
                setattr(module, name, jitted[value])
        vars(module).update(names)
    return not any(isinstance(f, triton.JITFunction) for f in jitted.values())


@jit
def arctan(g, alpha, beta):
    """alpha * atan(beta * g)."""
    x = _times(tl.abs(g), beta)
    if g.dtype == tl.float64:
        # atan(x) = n pi/4 + atan(t), |t| <= tan(pi/8); (atan(t) / t - 1) / t^2 in z = t^2: 7.1e-18
        above = x > 0.41421356237309503
        large = x > 2.414213562373095
        n = tl.where(large, 2.0, tl.where(above, 1.0, 0.0)).to(tl.float64)
        t = tl.where(large, -1.0, tl.where(above, x - 1.0, x))
        t = t / tl.where(large, x, tl.where(above, x + 1.0, 1.0))
        z = t * t
        q = _polynomial(
            z,
            (
                -0.019175404711104935,
                0.03923044778479309,
                -0.050854078345894844,
                0.05858140904866328,
                -0.06664510525508936,
                0.07692183125376892,
                -0.0909090457530649,
                0.11111111015187018,
                -0.14285714284665682,
                0.19999999999995516,
                -0.3333333333333333,
            ),
        )
        y = n * 0.7853981633974483 + (n * 3.061616997868383e-17 + tl.fma(t, z * q, t))
    else:
        large = x > 1.0
        t = tl.where(large, _divide(1.0, x), x)
        z = t * t
        q = _polynomial(
            z,
            (
                -0.001753906486555934,
                0.010726837441325188,
                -0.03080439753830433,
                0.057551901787519455,
                -0.08377303928136826,
                0.10942026972770691,
                -0.142619326710701,
                0.1999826580286026,
                -0.3333328366279602,
            ),
        )
        y = tl.fma(t, z * q, t)
        y = tl.where(large, 1.57079637 + (-4.37113883e-8 - y), y)
    return _finish(y, x, g, alpha, beta)


@jit
def tanh(g, alpha, beta):
    """The hyperbolic tangent: alpha * -e / (2 + e) with e = expm1(-2 beta |g|), and the sign of g."""
    x = _times(tl.abs(g), beta)
    most = 20.0 if g.dtype == tl.float64 else 10.0  # from there on tanh rounds to 1
    v = -2.0 * tl.where(x > most, most, x)  # = n ln 2 + r
    rest = tl.where(x < most, -2.0 * _lost(tl.abs(g), beta, x), 0.0)
    # 1.5 * 2^23 or 2^52 is added so that n lands in the low bits; (expm1(r) - r) / r^2 in float64: 8.6e-19
    if g.dtype == tl.float64:
        shifted = v * 1.4426950408889634 + 6755399441055744.0
        n = shifted - 6755399441055744.0
        r = (
            v - n * 0.693147180369123816490
        ) - n * 1.90821492927058770002e-10  # n ln 2, exact and rest
        q = _polynomial(
            r,
            (
                2.0914686968086876e-09,
                2.5105217004720745e-08,
                2.75572736431103e-07,
                2.7557255400206422e-06,
                2.4801587325547743e-05,
                0.00019841269874820627,
                0.0013888888888883748,
                0.008333333333326136,
                0.04166666666666667,
                0.1666666666666667,
                0.5,
            ),
        )
        power = ((shifted.to(tl.int64, bitcast=True) << 52) + 0x3FF0000000000000).to(
            tl.float64, bitcast=True
        )
    else:
        shifted = v * 1.44269504 + 12582912.0
        n = shifted - 12582912.0
        r = (v - n * 0.693145752) - n * 1.42860677e-6
        q = _polynomial(
            r,
            (
                0.0001984595728572458,
                0.0013941653305664659,
                0.008333391509950161,
                0.04166634753346443,
                0.1666666567325592,
                0.5,
            ),
        )
        power = _float((_bits(shifted) << 23) + 0x3F800000)  # 2^n
    m = r + tl.fma(r, r * q, rest)
    e = tl.fma(power, m, power - 1.0)
    # -e / (2 + e): what the sum and the division lose is put back
    s = 2.0 + e
    inverse = _divide(1.0, s)
    y = -e * inverse
    y = tl.fma(inverse, tl.fma(-y, s, -e) - y * (e - (s - 2.0)), y)
    return _finish(y, x, g, alpha, beta)


@jit
def log(g, alpha, beta):
    """alpha * sign(g) * ln(1 + beta |g|); large g are scaled by s, so that beta |g| cannot overflow."""
    a = tl.abs(g)
    if g.dtype == tl.float64:
        large = a > 3.273390607896142e150  # 2^500
        s = tl.where(large, 7.458340731200207e-155, 1.0).to(tl.float64)  # 2^-512
        x = s * a * beta
        u = s + x
        lost = x - (u - s)  # what the sum has lost is put back
        y = tl.log(u) + lost / u
        y = y + large.to(tl.float64) * 354.891356446692  # 512 ln 2
    else:
        large = a > 9.223372036854775808e18  # 2^63
        s = tl.where(large, 5.421010862427522e-20, 1.0)  # 2^-64
        x = _times(s * a, beta)
        u = s + x
        lost = x - (u - s)
        # u = 2^k (1 + t), t in [-1/4, 1/2)
        k = (_bits(u) - 0x3F400000) >> 23
        t = tl.fma(lost, _float(0x3F800000 - (k << 23)), _float(_bits(u) - (k << 23)) - 1.0)
        q = _polynomial(
            t,
            (
                -0.04490908980369568,
                0.10448277741670609,
                -0.13162223994731903,
                0.1448206752538681,
                -0.16647768020629883,
                0.19990606606006622,
                -0.250000536441803,
                0.3333345353603363,
                -0.5,
            ),
        )
        n = k.to(tl.float32) + tl.where(large, 64.0, 0.0)
        y = n * 0.693145752 + (t + (n * 1.42860677e-6 + t * (t * q)))
    y = tl.where(a == float("inf"), a, y)
    return _finish(y, tl.where(large, 1.0, x), g, alpha, beta)


@jit
def _polynomial(x, coefficients):
    """Horner's scheme, from the highest power."""
    q = x * 0.0
    for i in tl.static_range(len(coefficients)):
        q = tl.fma(
            q, x, tl.full((), coefficients[i], x.dtype)
        )  # a bare number may be rounded to float32
    return q


@jit
def _finish(y, x, g, alpha, beta):
    """alpha * y with the sign of g; the line slope * g where x = beta |g| is tiny and may be flushed."""
    curved = _times(y, alpha)
    curved = tl.where(g < 0, -curved, curved)
    return tl.where(x >= 5.551115123125783e-17, curved, (alpha * beta).to(g.dtype) * g)  # 2^-54


@jit
def _times(x, factor):
    """x * factor for x >= 0, without the error of rounding the factor to float32 first."""
    high, low = _halves(factor, x.dtype)
    product = x * high
    return tl.where(product < float("inf"), tl.fma(x, high, x * low), product)


@jit
def _lost(x, factor, product):
    """What :func:`_times` has lost to rounding."""
    high, low = _halves(factor, x.dtype)
    return tl.fma(x, high, -product) + x * low


@jit
def _halves(factor, dtype: constexpr):
    """A float64 number as a sum of two of a dtype."""
    high = factor.to(dtype)
    return high, (factor - high.to(tl.float64)).to(dtype)


@jit
def _divide(x, y):
    """x / y, rounded correctly; Triton's own float32 division is not."""
    if y.dtype == tl.float64:
        return x / y
    else:
        return tl.div_rn(x, y)


@jit
def _bits(x):
    return x.to(tl.int32, bitcast=True)


@jit
def _float(bits):
    return bits.to(tl.float32, bitcast=True)


@jit
def _activated(x, alpha, beta, FUNCTION: constexpr):
    if FUNCTION == "arctan":
        return arctan(x, alpha, beta)
    elif FUNCTION == "tanh":
        return tanh(x, alpha, beta)
    else:
        return log(x, alpha, beta)


# The steps. TYPE is how elements are stored; they are computed in float32, or in float64 if stored so.
