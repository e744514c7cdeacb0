"""The norm of all gradients in one pass: against float64, and no number that is not finite escapes it."""

import math

import pytest
import torch

from gaf.kernels import native

pytestmark = pytest.mark.skipif(not native.INSTRUCTION_SETS, reason="needs the native kernels")

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SIZES = (0, 1, 15, 64, 65, 4099, 70001)  # strips, blocks and chunks, and what is left of them


def tensors(dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator).to(dtype) for size in SIZES]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_against_float64(dtype, threads):
    gs = tensors(dtype)
    expected = math.sqrt(sum(g.double().square().sum().item() for g in gs))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert native.norm(gs) == pytest.approx(expected, rel=1e-6)  # observed: 3e-8
    finally:
        torch.set_num_threads(before)


def test_several_types_and_none():
    assert native.norm([torch.ones(3), torch.ones(1, dtype=torch.float64)]) == 2.0
    assert native.norm([]) == 0.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_place_hides_what_is_not_finite(dtype, value):
    for size in (1, 64, 131, 1100):
        g = torch.zeros(size, dtype=dtype)
        for place in range(0, size, max(1, size // 97)):
            g[place] = value
            assert not math.isfinite(native.norm([g])), (size, place)
            g[place] = 0
        assert native.norm([g]) == 0.0
