"""What a monitor knows exactly, by the kernel and by torch's operations, against numpy in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gaf.kernels import native
from gaf.kernels.figures import _of_one, figures, gather, gatherable
from gaf.kernels.layout import TYPES

SIZES = (0, 1, 15, 16, 17, 1000, 70_001)  # around a strip of the kernel, and over a chunk


def draw(size, dtype):
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)
    if size > 16:
        x[:8] = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.0, 1.0, -2.0])
    return x


def by_numpy(t):
    x = t.double().flatten().numpy()
    finite = x[np.isfinite(x)]
    squares, largest = np.sum(finite**2), np.abs(finite).max(initial=0.0)
    return [squares, largest, x.size - finite.size, np.sum(x == 0)]


@pytest.mark.skipif(not native.INSTRUCTION_SETS, reason="the native kernels were not built")
@pytest.mark.parametrize("isa", native.INSTRUCTION_SETS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_kernel(dtype, isa, monkeypatch):
    monkeypatch.setenv("GAF_ISA", isa)
    tensors = [draw(size, dtype) for size in SIZES]
    assert gatherable(tensors)
    found = figures(tensors)
    expected = torch.tensor([by_numpy(t) for t in tensors], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)  # observed: 2e-15
    row = gather(tensors, [7] * len(tensors), sum(-(-size // 7) for size in SIZES))
    wanted = torch.cat([t[::7] for t in tensors]).double()
    torch.testing.assert_close(row, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [*TYPES, torch.complex64], ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_torchs_operations(size, dtype):
    x = draw(size, torch.float32 if dtype.is_complex else dtype)
    t = torch.complex(x, x) if dtype.is_complex else x
    expected = by_numpy(torch.cat((x, x)) if dtype.is_complex else x)
    assert _of_one(t).tolist() == pytest.approx(expected, rel=1e-6)


def test_squares_neither_overflow_nor_vanish():
    for size in (1e30, 1e-30):
        x = torch.full((100,), size)
        assert math.sqrt(figures([x])[0, 0].item()) == pytest.approx(10 * size, rel=1e-6)
        assert math.sqrt(_of_one(x)[0].item()) == pytest.approx(10 * size, rel=1e-6)


def test_memory_in_another_order_and_views():
    x = torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last)
    assert figures([x])[0].tolist() == pytest.approx(by_numpy(x), rel=1e-6)
    view = torch.randn(40, 7)[::2, 1:4]
    assert not gatherable([view])
    assert figures([view])[0].tolist() == pytest.approx(by_numpy(view), rel=1e-6)
    negated = torch.ones(3, dtype=torch.complex64).conj().imag
    assert figures([negated])[0].tolist() == [0.0, 0.0, 0.0, 3.0]
