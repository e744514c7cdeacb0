"""The steps as Triton kernels, and how a program finds and moves the elements of its tensor."""

# ruff: noqa: SIM300 (TYPE is an argument, not a constant)

from __future__ import annotations

from typing import Any

from gaf.kernels.triton.functions import _activated, _bits, _divide, _float, jit

tl: Any = None  # triton.language; these three are set by functions.load
constexpr = float64 = Any


@jit
def sgd_kernel(
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
    factors,
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
    number, row, offsets, mask = _here(table, count, found_inf, 6 if CARRY else 4, ALIGNED, BLOCK)
    alpha = _factor(alpha, numbers, factors, number, 0)
    beta = _factor(beta, numbers, factors, number, 1)
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


@jit
def adam_kernel(
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
    factors,
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
    alpha = _factor(alpha, numbers, factors, number, 0)
    beta = _factor(beta, numbers, factors, number, 1)
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


@jit
def advance_kernel(
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


@jit
def activate_kernel(
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


@jit
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


@jit
def _size(cell, ALIGNED: constexpr):
    size = tl.load(cell)
    return tl.multiple_of(size, 8) if ALIGNED else size


@jit
def _number(x, numbers, i: constexpr):
    """A number of the step as a float64, from the arguments or from a tensor on the device."""
    if numbers is None:
        return tl.full((), x, tl.float64)
    else:
        return tl.load(numbers + i)


@jit
def _factor(x, numbers, factors, number, i: constexpr):
    """Alpha (0) or beta (1) of a tensor: its own where ``factors`` has them, else that of all."""
    if factors is None:
        return _number(x, numbers, i)
    else:
        return tl.load(factors + 2 * number + i)


@jit
def _unscaled(g, grad_scale, MAXIMIZE: constexpr):
    if grad_scale is not None:
        g = g * (1.0 / tl.load(grad_scale).to(tl.float64)).to(g.dtype)
    return -g if MAXIMIZE else g


@jit
def _address(cell, TYPE: constexpr, ALIGNED: constexpr):
    """The address in a cell of the table; bfloat16 elements are moved as bits."""
    at = tl.load(cell).to(tl.pointer_type(tl.int16 if TYPE == tl.bfloat16 else TYPE))
    return tl.multiple_of(at, 16) if ALIGNED else at


@jit
def _read(cell, offsets, mask, TYPE: constexpr, ALIGNED: constexpr):
    x = tl.load(_address(cell, TYPE, ALIGNED) + offsets, mask=mask, other=0)
    if TYPE == tl.bfloat16:
        return _float(x.to(tl.int32) << 16)
    else:
        return x.to(tl.float64 if TYPE == tl.float64 else tl.float32)


@jit
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
