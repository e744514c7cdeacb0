"""The native formulas against float64, over the whole range of float32, on every instruction set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
import torch

import gaf
from gaf.kernels import native

if not native.INSTRUCTION_SETS:
    pytest.skip("the native kernels were not built", allow_module_level=True)

# (alpha, beta) from 1e-3 to 1e7: the paper's presets, and every corner.
FACTORS = [
    (0.1, 20.0),
    (0.2, 10.0),
    (1.0, 1.0),
    (0.3, 0.7),
    (5.0, 1.5),
    (1e3, 1e-3),
    (1e-3, 1e-3),
    (1e-3, 1e7),
    (1e7, 1e-3),
    (1e7, 1e7),
]
# Observed over the sweep: arctan 2.5, tanh 3.3, log 2.4, with FMA and without. Over all numbers in a
# stretch of the bend, with alpha so that f ends just below a power of 2, worst of 25 draws: 2.9, 3.8, 2.7.
ULP = 4.0
EXPONENT = 0x7FF0000000000000  # of a float64
STRIDE = 4093  # of the 2^31 positive float32 numbers; `make test-slow` takes each 251st


def sweep(stride: int) -> torch.Tensor:
    """Positive finite float32 numbers, subnormals included, and as many negative ones."""
    bits = torch.arange(0, 0x7F800000, stride, dtype=torch.int32)
    values = bits.view(torch.float32)
    return torch.cat([values, -values[:: max(1, values.numel() // 1000)]])


def errors_in_ulp(
    name: str, alpha: float, beta: float, g: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The errors in units of the last place of the true value: of normal values, and of subnormal ones."""
    return errors_against(
        gaf.parse(f"{name}({alpha!r}, {beta!r})")(g.double()), name, alpha, beta, g
    )


def errors_against(
    truth: torch.Tensor, name: str, alpha: float, beta: float, g: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, of true values that were computed before."""
    result = g.clone()
    native.activate([result], name, (alpha, beta))
    fits = truth.abs() <= torch.finfo(torch.float32).max
    power = (truth.view(torch.int64) & EXPONENT).view(torch.float64)  # of 2, at or below |truth|
    error = (result.double() - truth).abs() / (power.clamp(min=2.0**-126) * 2.0**-23)
    assert torch.isinf(result[~fits]).all()
    normal = truth.abs() >= 2.0**-126
    return error[fits & normal], error[~normal]


def error_in_ulp(name: str, alpha: float, beta: float, g: torch.Tensor) -> float:
    """The worst of all errors."""
    return torch.cat(errors_in_ulp(name, alpha, beta, g)).max().item()


def check(name: str, g: torch.Tensor, instruction_sets: Sequence[str], monkeypatch) -> None:
    """In pieces that a processor's cache holds."""
    for (alpha, beta), piece in itertools.product(FACTORS, g.split(1 << 16)):
        truth = gaf.parse(f"{name}({alpha!r}, {beta!r})")(piece.double())
        for isa in instruction_sets:
            monkeypatch.setenv("GAF_ISA", isa)
            normal, subnormal = errors_against(truth, name, alpha, beta, piece)
            assert (normal <= ULP).all(), (isa, alpha, beta, normal.max())
            assert (subnormal <= 1).all(), (isa, alpha, beta, subnormal.max())


@pytest.mark.parametrize("name", native.FUNCTIONS)
def test_float32(isa, name, monkeypatch):
    check(name, sweep(STRIDE), [isa], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", native.FUNCTIONS)
def test_float32_densely(name, monkeypatch):
    """On all instruction sets at once: what takes the time are the true values."""
    check(name, sweep(251), native.INSTRUCTION_SETS, monkeypatch)


@pytest.mark.parametrize("dtype", native.TYPES, ids=str)
@pytest.mark.parametrize("name", native.FUNCTIONS)
def test_ends_of_the_range(isa, name, dtype):
    """±0 keep their sign, ±inf go to the bound, NaN stays, subnormals are not flushed."""
    tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    huge = torch.finfo(dtype).max
    g = torch.tensor(
        [0.0, -0.0, math.inf, -math.inf, math.nan, tiny, -tiny, huge, -huge], dtype=dtype
    )
    for alpha, beta in FACTORS:
        result = g.clone()
        native.activate([result], name, (alpha, beta))
        expected = gaf.parse(f"{name}({alpha!r}, {beta!r})")(g)
        # float16 and bfloat16 may round to either side where float32 differs in its last bit
        torch.testing.assert_close(
            result, expected, rtol=2 * torch.finfo(dtype).eps, atol=tiny, equal_nan=True
        )
        signed = [i for i in range(len(g)) if i != 4]
        assert torch.equal(torch.signbit(result[signed]), torch.signbit(g[signed]))


@pytest.mark.parametrize("name", ["arctan", "tanh", "softsign", "algebraic"])
def test_infinity_is_at_the_bound_for_the_smallest_beta(isa, name):
    """A scaled loss makes beta smaller still: beta / 2^40 here."""
    w = torch.zeros(3, requires_grad=True)
    w.grad = torch.tensor([math.inf, -math.inf, 0.0])
    f = gaf.parse(f"{name}(0.1, 1e-17)")
    opt = gaf.SGD([w], lr=1.0, activation=f, fused=True)
    opt.grad_scale, opt.found_inf = torch.tensor(2.0**40), torch.tensor(0.0)
    opt.step()
    torch.testing.assert_close(w.detach(), torch.tensor([-f.bound, f.bound, 0.0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_every_half_precision_number(isa, dtype):
    """All 65,536 of them: loaded, activated in float32, and rounded once, to nearest."""
    g = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    for name in native.FUNCTIONS:
        result = g.clone()
        native.activate([result], name, (0.1, 20.0))
        exact = gaf.parse(name)(g.double())
        expected = exact.to(dtype)
        off = (result.view(torch.int16).int() - expected.view(torch.int16).int()).abs()
        off[torch.isnan(g)] = 0
        assert torch.isnan(result[torch.isnan(g)]).all()
        assert off.max() <= 1
        assert (off == 1).float().mean() < 1e-3  # only where float32's error crosses a midpoint


def test_float64(isa):
    g = torch.logspace(-320, 308, 20_000, dtype=torch.float64)
    g = torch.cat([g, -g])
    for name in native.FUNCTIONS:
        for alpha, beta in FACTORS:
            result = g.clone()
            native.activate([result], name, (alpha, beta))
            expected = gaf.parse(f"{name}({alpha!r}, {beta!r})")(g)
            torch.testing.assert_close(result, expected, rtol=1e-15, atol=5e-324)


def test_a_wrong_value_is_caught():
    """The measure above sees a relative error of one in a million."""
    g = sweep(10_007)
    truth = gaf.Arctan(0.1, 20.0)
    assert error_in_ulp("arctan", 0.1, 20.0, g) <= ULP
    assert error_in_ulp("arctan", truth.alpha, truth.beta * (1 + 1e-6), g) <= ULP
    result = g.clone()
    native.activate([result], "arctan", (0.1, 20.0 * (1 + 1e-6)))
    error = (result.double() - truth(g.double())).abs() / truth(g.double()).abs().clamp(min=1e-30)
    assert error.max() > 2.0**-22
