"""Triton kernels for CUDA: one launch for the whole list of tensors of a dtype.

The functions have the signatures of :mod:`gaf.kernels.native` and are the CUDA side of the same operators.
Nothing here waits for the device: ``grad_scale``, ``found_inf`` and Adam's step counts are read by the
kernels, and where ``found_inf`` is not 0 nothing is written. Under ``TRITON_INTERPRET=1`` the kernels run
on CPU tensors.

Each launch reads a table with a row per tensor: the first of its blocks, its size and its addresses. The
table travels by an asynchronous copy and is kept for the next step, under its own numbers as the key.

CUDA graphs (``capturable``): during a capture the table is instead built on the device by kernels that
take its numbers as arguments, so that a graph holds all it needs, as with any temporary tensor. It needs

- one step of the same kind before the capture, which compiles the kernels;
- parameters, gradients and state that stay where they are, as for every captured optimizer;
- Adam's step counts on the device (``capturable=True`` or ``fused=True`` put them there);
- tensors on the device for the numbers that are to change between replays: the learning rate, the
  function's parameters, a weight decay, Adam's betas. A Python number is frozen into the graph.

Triton is imported on first use. The formulas take primitives of ``triton.language`` only, and are compiled
without contraction (``enable_fp_fusion=False``): multiplications and additions are fused exactly where
``tl.fma`` says so, and in float32 the interpreter computes what the GPU computes.
"""

# ruff: noqa: SIM300 (TYPE is an argument, not a constant)

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from gaf.kernels import native
from gaf.kernels.native import FUNCTIONS

BLOCK = 1024  # elements per program

tl: Any = None  # triton.language, once _load has run

# Annotations that Triton reads: a value known when compiling, and a number not to be rounded to float32.
constexpr = float64 = Any

_JIT: list[Callable[..., Any]] = []


def _jit(function: Callable[..., Any]) -> Any:
    """Mark a function for ``triton.jit``, which is put off until :func:`_load`."""
    _JIT.append(function)
    return function


@functools.cache
def _load() -> bool:
    """Import Triton and make its functions of the marked ones; whether it interprets them."""
    triton, language = import_module("triton"), import_module("triton.language")
    here = globals()
    here.update(tl=language, constexpr=language.constexpr, float64=language.float64)
    for function in _JIT:
        here[function.__name__] = triton.jit(function, do_not_specialize=["count"])
    return not isinstance(here["_sgd_kernel"], triton.JITFunction)


# The formulas share their names with the Python functions, and in float32 their steps and coefficients with
# csrc/functions.h, where the error of each fit is noted. `alpha` and `beta` are float64 numbers.


@_jit
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


@_jit
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


@_jit
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


@_jit
def _polynomial(x, coefficients):
    """Horner's scheme, from the highest power."""
    q = x * 0.0
    for i in tl.static_range(len(coefficients)):
        q = tl.fma(
            q, x, tl.full((), coefficients[i], x.dtype)
        )  # a bare number may be rounded to float32
    return q


@_jit
def _finish(y, x, g, alpha, beta):
    """alpha * y with the sign of g; the line slope * g where x = beta |g| is tiny and may be flushed."""
    curved = _times(y, alpha)
    curved = tl.where(g < 0, -curved, curved)
    return tl.where(x >= 5.551115123125783e-17, curved, (alpha * beta).to(g.dtype) * g)  # 2^-54


@_jit
def _times(x, factor):
    """x * factor for x >= 0, without the error of rounding the factor to float32 first."""
    high, low = _halves(factor, x.dtype)
    product = x * high
    return tl.where(product < float("inf"), tl.fma(x, high, x * low), product)


@_jit
def _lost(x, factor, product):
    """What :func:`_times` has lost to rounding."""
    high, low = _halves(factor, x.dtype)
    return tl.fma(x, high, -product) + x * low


@_jit
def _halves(factor, dtype: constexpr):
    """A float64 number as a sum of two of a dtype."""
    high = factor.to(dtype)
    return high, (factor - high.to(tl.float64)).to(dtype)


@_jit
def _divide(x, y):
    """x / y, rounded correctly; Triton's own float32 division is not."""
    if y.dtype == tl.float64:
        return x / y
    else:
        return tl.div_rn(x, y)


@_jit
def _bits(x):
    return x.to(tl.int32, bitcast=True)


@_jit
def _float(bits):
    return bits.to(tl.float32, bitcast=True)


@_jit
def _activated(x, alpha, beta, FUNCTION: constexpr):
    if FUNCTION == "arctan":
        return arctan(x, alpha, beta)
    elif FUNCTION == "tanh":
        return tanh(x, alpha, beta)
    else:
        return log(x, alpha, beta)


# The steps. TYPE is how elements are stored; they are computed in float32, or in float64 if stored so.


@_jit
def _sgd_kernel(
    table,
    count,
    numbers,
    alpha: float64,
    beta: float64,
    lr: float64,
    weight_decay: float64,
    momentum: float64,
    gain: float64,
    grad_scale,
    found_inf,
    FUNCTION: constexpr,
    PLACEMENT: constexpr,
    NESTEROV: constexpr,
    MAXIMIZE: constexpr,
    CARRY: constexpr,
    TYPE: constexpr,
    ALIGNED: constexpr,
    BLOCK: constexpr,
):
    """The rule of :func:`gaf.optim.rules.sgd`.

    A row: start, size, w, g, and with CARRY v and how many elements of it exist: all or, at first, none.
    """
    _, row, offsets, mask = _here(table, count, found_inf, 6 if CARRY else 4, ALIGNED, BLOCK)
    alpha = _number(alpha, numbers, 0)
    beta = _number(beta, numbers, 1)
    w = _read(row + 2, offsets, mask, TYPE, ALIGNED)
    d = _unscaled(_read(row + 3, offsets, mask, TYPE, ALIGNED), grad_scale, MAXIMIZE)
    lr = _number(lr, numbers, 2).to(w.dtype)
    decay = _number(weight_decay, numbers, 3).to(w.dtype)

    if PLACEMENT == "gradient":
        d = _activated(d, alpha, beta, FUNCTION)
    d = d + decay * tl.where(decay != 0, w, 0.0)
    if PLACEMENT == "update":
        d = -lr * d
    u = d
    if CARRY:
        momentum = _number(momentum, numbers, 4).to(w.dtype)
        old = mask & (offsets < _size(row + 5, ALIGNED))
        v = _read(row + 4, offsets, old, TYPE, ALIGNED)
        v = tl.where(old, momentum * v + _number(gain, numbers, 5).to(w.dtype) * d, d)
        _write(row + 4, offsets, mask, v, TYPE, ALIGNED)
        u = d + momentum * v if NESTEROV else v
    if PLACEMENT != "gradient":
        u = _activated(u, alpha, beta, FUNCTION)
    w = w + u if PLACEMENT == "update" else w - lr * u
    _write(row + 2, offsets, mask, w, TYPE, ALIGNED)


@_jit
def _adam_kernel(
    table,
    count,
    corrections,
    numbers,
    alpha: float64,
    beta: float64,
    lr: float64,
    beta1: float64,
    beta2: float64,
    eps: float64,
    weight_decay: float64,
    grad_scale,
    found_inf,
    FUNCTION: constexpr,
    DECOUPLED: constexpr,
    MAXIMIZE: constexpr,
    AMSGRAD: constexpr,
    TYPE: constexpr,
    ALIGNED: constexpr,
    BLOCK: constexpr,
):
    """Adam on f(gradient). A row: start, size, w, g, m, v, with AMSGRAD the largest v, and the step."""
    number, row, offsets, mask = _here(table, count, found_inf, 8 if AMSGRAD else 7, ALIGNED, BLOCK)
    alpha = _number(alpha, numbers, 0)
    beta = _number(beta, numbers, 1)
    w = _read(row + 2, offsets, mask, TYPE, ALIGNED)
    d = _unscaled(_read(row + 3, offsets, mask, TYPE, ALIGNED), grad_scale, MAXIMIZE)
    m = _read(row + 4, offsets, mask, TYPE, ALIGNED)
    v = _read(row + 5, offsets, mask, TYPE, ALIGNED)
    beta1 = _number(beta1, numbers, 3)
    beta2 = _number(beta2, numbers, 4)
    decay = _number(weight_decay, numbers, 6)

    d = _activated(d, alpha, beta, FUNCTION)
    if DECOUPLED:
        w = w * (1.0 - _number(lr, numbers, 2) * decay).to(w.dtype)
    else:
        decay = decay.to(w.dtype)
        d = d + decay * tl.where(decay != 0, w, 0.0)
    m = m + (1.0 - beta1).to(w.dtype) * (d - m)
    v = beta2.to(w.dtype) * v + (1.0 - beta2).to(w.dtype) * (d * d)
    _write(row + 4, offsets, mask, m, TYPE, ALIGNED)
    _write(row + 5, offsets, mask, v, TYPE, ALIGNED)
    if AMSGRAD:
        top = _read(row + 6, offsets, mask, TYPE, ALIGNED)
        v = tl.where((v > top) | (v != v), v, top)
        _write(row + 6, offsets, mask, v, TYPE, ALIGNED)
    at = corrections + 2 * number
    size = tl.load(at).to(w.dtype)
    inverse_root = tl.load(at + 1).to(w.dtype)
    root = tl.sqrt(v) if TYPE == tl.float64 else tl.sqrt_rn(v)
    eps = _number(eps, numbers, 5).to(w.dtype)
    w = w - _divide(size * m, root * inverse_root + eps)
    _write(row + 2, offsets, mask, w, TYPE, ALIGNED)


@_jit
def _advance_kernel(
    table,
    count,
    corrections,
    numbers,
    lr: float64,
    beta1: float64,
    beta2: float64,
    found_inf,
    COLUMNS: constexpr,
    TYPE: constexpr,
    BLOCK: constexpr,
):
    """Count Adam's steps, and per tensor store lr / (1 - beta1^t) and 1 / sqrt(1 - beta2^t)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if found_inf is not None:
        count = tl.where(tl.load(found_inf) == 0, count, 0)
    mask = i < count
    step = tl.load(table + i * COLUMNS + COLUMNS - 1, mask=mask, other=0).to(tl.pointer_type(TYPE))
    t = tl.load(step, mask=mask, other=0.0) + 1.0
    tl.store(step, t, mask=mask)
    t = t.to(tl.float64)
    lr = _number(lr, numbers, 2)
    power1 = tl.exp(t * tl.log(_number(beta1, numbers, 3)))
    power2 = tl.exp(t * tl.log(_number(beta2, numbers, 4)))
    tl.store(corrections + 2 * i, lr / (1.0 - power1), mask=mask)
    tl.store(corrections + 2 * i + 1, 1.0 / tl.sqrt(1.0 - power2), mask=mask)


@_jit
def _activate_kernel(
    table,
    count,
    largest,
    numbers,
    alpha: float64,
    beta: float64,
    FUNCTION: constexpr,
    TYPE: constexpr,
    ALIGNED: constexpr,
    BLOCK: constexpr,
):
    """f in place; each program stores its largest |g|, found by its bits, where NaN is above inf."""
    _, row, offsets, mask = _here(table, count, None, 3, ALIGNED, BLOCK)
    g = _read(row + 2, offsets, mask, TYPE, ALIGNED)
    if TYPE == tl.float64:
        top = tl.max(tl.abs(g).to(tl.int64, bitcast=True), axis=0).to(tl.float64, bitcast=True)
    else:
        top = _float(tl.max(_bits(tl.abs(g)), axis=0))
    tl.store(largest + tl.program_id(0), top)
    alpha = _number(alpha, numbers, 0)
    beta = _number(beta, numbers, 1)
    _write(row + 2, offsets, mask, _activated(g, alpha, beta, FUNCTION), TYPE, ALIGNED)


@_jit
def _here(table, count, found_inf, COLUMNS: constexpr, ALIGNED: constexpr, BLOCK: constexpr):
    """The tensor that this program works on: its number, its row, the elements, and which of them exist."""
    program = tl.program_id(0).to(tl.int64)
    low = program * 0
    high = low + count
    while high - low > 1:  # the last row that starts at or before this program
        middle = (low + high) >> 1
        before = tl.load(table + middle * COLUMNS) <= program
        low = tl.where(before, middle, low)
        high = tl.where(before, high, middle)
    row = table + low * COLUMNS
    offsets = (program - tl.load(row)) * BLOCK + tl.arange(0, BLOCK)
    size = _size(row + 1, ALIGNED)
    if found_inf is not None:
        size = tl.where(tl.load(found_inf) == 0, size, 0)
    return low, row, offsets, offsets < size


@_jit
def _size(cell, ALIGNED: constexpr):
    size = tl.load(cell)
    return tl.multiple_of(size, 8) if ALIGNED else size


@_jit
def _number(x, numbers, i: constexpr):
    """A number of the step as a float64, from the arguments or from a tensor on the device."""
    if numbers is None:
        return tl.full((), x, tl.float64)
    else:
        return tl.load(numbers + i)


@_jit
def _unscaled(g, grad_scale, MAXIMIZE: constexpr):
    if grad_scale is not None:
        g = g * (1.0 / tl.load(grad_scale).to(tl.float64)).to(g.dtype)
    return -g if MAXIMIZE else g


@_jit
def _address(cell, TYPE: constexpr, ALIGNED: constexpr):
    """The address in a cell of the table; bfloat16 elements are moved as bits."""
    at = tl.load(cell).to(tl.pointer_type(tl.int16 if TYPE == tl.bfloat16 else TYPE))
    return tl.multiple_of(at, 16) if ALIGNED else at


@_jit
def _read(cell, offsets, mask, TYPE: constexpr, ALIGNED: constexpr):
    x = tl.load(_address(cell, TYPE, ALIGNED) + offsets, mask=mask, other=0)
    if TYPE == tl.bfloat16:
        return _float(x.to(tl.int32) << 16)
    else:
        return x.to(tl.float64 if TYPE == tl.float64 else tl.float32)


@_jit
def _write(cell, offsets, mask, x, TYPE: constexpr, ALIGNED: constexpr):
    if TYPE == tl.bfloat16:
        # to nearest, ties to even, by hand: the interpreter's own cast truncates
        bits = _bits(x)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        x = tl.where(x == x, rounded, (bits >> 16) | 0x40).to(tl.int16)
    tl.store(
        _address(cell, TYPE, ALIGNED) + offsets,
        x.to(x.dtype if TYPE == tl.bfloat16 else TYPE),
        mask=mask,
    )


# The host's side: which tensors go together, and what a launch is told of them.


@dataclass
class _Batch:
    """Tensors of one device and dtype, all aligned to 16 bytes or not, which one launch serves.

    A row holds the addresses of a parameter and of what belongs to it, and after them the extra number.
    """

    device: torch.device
    dtype: torch.dtype
    aligned: bool
    sizes: list[int]
    rows: list[tuple[int, ...]]

    @functools.cached_property
    def blocks(self) -> list[int]:
        """Up to each tensor, the number of programs; the last entry is that of all."""
        return list(accumulate((-(-size // BLOCK) for size in self.sizes), initial=0))

    @functools.cached_property
    def table(self) -> Tensor:
        rows = zip(self.blocks, self.sizes, self.rows, strict=False)
        return _table(
            tuple(n for start, size, row in rows for n in (start, size, *row)), self.device
        )

    def numbers(self, numbers: Tensor | list[float]) -> tuple[Tensor | None, list[float]]:
        """A step's numbers as a tensor for the kernel to read, or as arguments if they are elsewhere."""
        if not isinstance(numbers, Tensor):
            return None, numbers
        if numbers.device.type != self.device.type:
            return None, numbers.tolist()
        return numbers.to(self.device), [0.0] * numbers.numel()

    def near(self, number: Tensor | None) -> Tensor | None:
        return None if number is None else number.to(self.device, non_blocking=True)

    def launch(self, kernel: Any, programs: int, *args: Any, **constants: Any) -> None:
        if programs:
            with torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext():
                kernel[(programs,)](
                    self.table, len(self.rows), *args, enable_fp_fusion=False, **constants
                )

    def launch_blocks(self, kernel: Any, *args: Any, **constants: Any) -> None:
        """Launch a kernel with one program per block of elements."""
        constants.update(TYPE=_type(self.dtype), ALIGNED=self.aligned, BLOCK=BLOCK)
        self.launch(kernel, self.blocks[-1], *args, **constants)


def _batches(lists: Sequence[Sequence[Tensor]], extra: Sequence[int] | None = None) -> list[_Batch]:
    _load()
    batches: dict[tuple[torch.device, torch.dtype, bool], _Batch] = {}
    for i, tensors in enumerate(zip(*lists, strict=True)):
        size, addresses = tensors[0].numel(), tuple(t.data_ptr() for t in tensors)
        # what lets the compiler move 16 bytes at a time
        aligned = size % 8 == 0 and all(address % 16 == 0 for address in addresses)
        key = (tensors[0].device, tensors[0].dtype, aligned)
        batch = batches.setdefault(key, _Batch(*key, [], []))
        batch.sizes.append(size)
        batch.rows.append(addresses if extra is None else (*addresses, extra[i]))
    return list(batches.values())


_TABLES: OrderedDict[Any, Tensor] = OrderedDict()
_KEPT_TABLES = 64


def _table(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    """The numbers on the device, without waiting for it; see the top of the file."""
    if _capturing(device):
        table = torch.zeros(len(numbers), dtype=torch.int64, device=device)
        torch._foreach_add_(list(table.unbind()), list(numbers))  # they travel as kernel arguments
        return table
    cuda = device.type == "cuda"
    # the copy is ordered before the launches of its own stream only
    key = (device, torch.cuda.current_stream(device).cuda_stream if cuda else 0, numbers)
    if key not in _TABLES:
        host = torch.tensor(numbers, dtype=torch.int64, pin_memory=cuda)
        _TABLES[key] = host.to(device, non_blocking=True)
        if len(_TABLES) > _KEPT_TABLES:
            _TABLES.popitem(last=False)
    _TABLES.move_to_end(key)
    return _TABLES[key]


def _capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _type(dtype: torch.dtype) -> Any:
    return getattr(tl, str(dtype).removeprefix("torch."))


def _on_cuda(tensors: Sequence[Tensor]) -> bool:
    return bool(tensors) and tensors[0].device.type == "cuda"


def _numbers(tensors: Sequence[Tensor], *values: float | Tensor) -> Tensor | list[float]:
    """A step's numbers: on the device of ``tensors`` if one of them is there, and read here otherwise."""
    device = tensors[0].device if tensors else torch.device("cpu")

    def is_near(value: float | Tensor) -> bool:
        return isinstance(value, Tensor) and value.device.type == device.type

    if any(map(is_near, values)):
        return torch.stack(
            [
                v.detach().to(device, torch.float64).reshape(())  # type: ignore[union-attr]
                if is_near(v)
                else torch.full((), float(v), dtype=torch.float64, device=device)
                for v in values
            ]
        )
    numbers = [float(v) for v in values]
    return torch.tensor(numbers, dtype=torch.float64) if _on_cuda(tensors) else numbers


def refusal(function: str, *lists: Sequence[Tensor | None]) -> str | None:
    """Why the kernels cannot serve these tensors (parallel lists), or None if they can."""
    if not _installed():
        return "triton is not installed"
    if function not in FUNCTIONS:
        return f"{function} has no Triton kernel"
    # Triton is not imported only to refuse CPU tensors
    kind = "cpu" if os.environ.get("TRITON_INTERPRET") and _load() else "cuda"
    return native.refusal_of_rows("Triton", kind, lists)


@functools.cache
def _installed() -> bool:
    return find_spec("triton") is not None


def sgd(
    ws: Sequence[Tensor],
    gs: Sequence[Tensor],
    vs: Sequence[Tensor | None],
    function: str,
    params: tuple[float | Tensor, ...],
    *,
    placement: str,
    lr: float | Tensor,
    momentum: float,
    dampening: float,
    weight_decay: float | Tensor,
    nesterov: bool,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> list[Tensor | None]:
    """One step of each tensor of ``ws`` in place, as :func:`gaf.optim.rules.sgd`.

    Only the device knows whether ``found_inf`` skips a step. A first step that it skips leaves velocities
    of 0, and the next step then applies ``dampening``, as a second one does.
    """
    fresh: list[bool] = []
    velocities: list[Tensor] = []
    if momentum != 0:
        fresh = [v is None for v in vs]
        new = torch.empty_like if found_inf is None else torch.zeros_like
        velocities = [new(w) if v is None else v for w, v in zip(ws, vs, strict=True)]
    ws = native._local(ws)
    step = torch.ops.gaf.sgd_ if _on_cuda(ws) else _sgd
    step(
        ws,
        native._local(gs),
        native._local(velocities),
        fresh,
        function,
        placement,
        nesterov,
        maximize,
        _numbers(ws, *params, lr, weight_decay, momentum, 1 - dampening),
        grad_scale,
        found_inf,
    )
    return list(velocities) or [None] * len(ws)


@torch.library.impl(native._LIBRARY, "sgd_", "CUDA")
def _sgd(
    ws: list[Tensor],
    gs: list[Tensor],
    vs: list[Tensor],
    fresh: list[bool],
    function: str,
    placement: str,
    nesterov: bool,
    maximize: bool,
    numbers: Tensor | list[float],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> None:
    old = [0 if first else v.numel() for v, first in zip(vs, fresh, strict=True)] if vs else None
    for batch in _batches([ws, gs, vs] if vs else [ws, gs], old):
        tensor, scalars = batch.numbers(numbers)
        batch.launch_blocks(
            _sgd_kernel,
            tensor,
            *scalars,
            batch.near(grad_scale),
            batch.near(found_inf),
            FUNCTION=function,
            PLACEMENT=placement,
            NESTEROV=nesterov,
            MAXIMIZE=maximize,
            CARRY=bool(vs),
        )


def adam(
    ws: Sequence[Tensor],
    gs: Sequence[Tensor],
    ms: Sequence[Tensor],
    vs: Sequence[Tensor],
    tops: Sequence[Tensor],
    steps: Sequence[Tensor],
    function: str,
    params: tuple[float | Tensor, ...],
    *,
    lr: float | Tensor,
    betas: tuple[float | Tensor, float | Tensor],
    eps: float,
    weight_decay: float,
    decoupled_weight_decay: bool,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """One step of Adam on f(gradient), in place; ``tops`` is empty without amsgrad."""
    for w, step in zip(ws, steps, strict=True):
        if step.device != w.device or step.dtype != steps[0].dtype:
            raise ValueError(
                f"a step count is {step.dtype} on {step.device}: Adam's kernel counts on the device of the "
                f"parameter, {w.device} (capturable=True or fused=True puts counts there), in one dtype"
            )
    ws = native._local(ws)
    step = torch.ops.gaf.adam_ if _on_cuda(ws) else _adam
    step(
        ws,
        native._local(gs),
        native._local(ms),
        native._local(vs),
        native._local(tops),
        list(steps),
        function,
        decoupled_weight_decay,
        maximize,
        _numbers(ws, *params, lr, *betas, eps, weight_decay),
        grad_scale,
        found_inf,
    )


@torch.library.impl(native._LIBRARY, "adam_", "CUDA")
def _adam(
    ws: list[Tensor],
    gs: list[Tensor],
    ms: list[Tensor],
    vs: list[Tensor],
    tops: list[Tensor],
    steps: list[Tensor],
    function: str,
    decoupled: bool,
    maximize: bool,
    numbers: Tensor | list[float],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> None:
    lists = [ws, gs, ms, vs, tops] if tops else [ws, gs, ms, vs]
    for batch in _batches(lists, [step.data_ptr() for step in steps]):
        count, found = len(batch.rows), batch.near(found_inf)
        tensor, scalars = batch.numbers(numbers)
        corrections = torch.empty(2 * count, dtype=torch.float64, device=batch.device)
        batch.launch(
            _advance_kernel,
            -(-count // 128),
            corrections,
            tensor,
            *scalars[2:5],  # lr, beta1, beta2
            found,
            COLUMNS=len(lists) + 3,
            TYPE=_type(steps[0].dtype),
            BLOCK=128,
        )
        batch.launch_blocks(
            _adam_kernel,
            corrections,
            tensor,
            *scalars,
            batch.near(grad_scale),
            found,
            FUNCTION=function,
            DECOUPLED=decoupled,
            MAXIMIZE=maximize,
            AMSGRAD=bool(tops),
        )


def activate(gs: Sequence[Tensor], function: str, params: tuple[float | Tensor, ...]) -> Tensor:
    """f in place on each tensor; returns the largest absolute value there was, NaN if one was."""
    gs = native._local(gs)
    step = torch.ops.gaf.activate_ if _on_cuda(gs) else _activate
    return step(gs, function, _numbers(gs, *params))


@torch.library.impl(native._LIBRARY, "activate_", "CUDA")
def _activate(gs: list[Tensor], function: str, numbers: Tensor | list[float]) -> Tensor:
    home = gs[0].device if gs else None
    wide = torch.float64 if any(g.dtype == torch.float64 for g in gs) else torch.float32
    found = [torch.zeros((), dtype=wide, device=home)]
    for batch in _batches([gs]):
        tensor, scalars = batch.numbers(numbers)
        dtype = torch.promote_types(batch.dtype, torch.float32)
        largest = torch.empty(batch.blocks[-1], dtype=dtype, device=batch.device)
        batch.launch_blocks(_activate_kernel, largest, tensor, *scalars, FUNCTION=function)
        if batch.blocks[-1]:
            found.append(largest.amax().to(home, wide))
    return torch.stack(found).amax()
