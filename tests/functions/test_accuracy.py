"""Formula, derivative and integral of every built-in function against mpmath, in every dtype."""

from __future__ import annotations

import math

import pytest
import torch

import gaf
from tests.functions.exact import CURVED, EXACT, FORMULAS, error_in_ulp, exact
from tests.pairs import pairs_first

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
PARAMS = (
    *((0.1, 20.0), (0.2, 10.0), (1e3, 1e-3), (100.0, 0.01)),
    *((1e-3, 1e7), (1e7, 1e7), (1e-3, 1e-3), (5.0, 1.5)),
)

# In units in the last place, for float32 and float64. Behind each stands the worst observed at
# 200 000 points, half of them within 8 octaves of 1 / beta (x86-64, torch 2.13).
ULP = {
    ("value", gaf.Arctan): 4,  # 2.9
    ("value", gaf.Tanh): 4,  # 2.9
    ("value", gaf.Log): 4,  # 3.1
    ("derivative", gaf.Arctan): 7,  # 5.3
    ("derivative", gaf.Log): 4,  # 3.0
    ("integral", gaf.Arctan): 20,  # 14.6, where beta g is just above 1
    ("integral", gaf.Tanh): 8,  # 5.1
    ("integral", gaf.Log): 10,  # 7.2
    # the following by 20 000 points
    ("value", gaf.Softsign): 4,  # 3.1
    ("value", gaf.Algebraic): 4,  # 3.5
    ("value", gaf.Asinh): 4,  # 3.0
    ("derivative", gaf.Softsign): 6,  # 4.1
    ("derivative", gaf.Algebraic): 10,  # 7.1
    ("derivative", gaf.Asinh): 4,  # 2.7
    ("integral", gaf.Softsign): 8,  # 6.0
    ("integral", gaf.Algebraic): 6,  # 4.0
    ("integral", gaf.Asinh): 8,
    **{(what, cls): 4 for what in FORMULAS for cls in (gaf.Line, gaf.Sign, gaf.Clip, gaf.BiClip)},
}
HALF_ULP = 0.51  # float16 and bfloat16: rounded once from float32; 0.5004 observed


def tolerance(f: gaf.Activation, what: str, g: float, dtype: torch.dtype) -> float:
    key = what, type(f)
    if key in ULP:
        return ULP[key] if dtype.itemsize >= 4 else HALF_ULP
    # 1 / cosh(x)^2 loses 2 |x| units where x is rounded; 0.8 of this observed
    single = 4 + 4 * abs(f.params[1] * g)
    if dtype.itemsize >= 4:
        return single
    return HALF_ULP + single * torch.finfo(torch.float32).eps / torch.finfo(dtype).eps


def gradients(dtype: torch.dtype, beta: float, seed: int) -> torch.Tensor:
    """Magnitudes over the whole range, subnormal ones too, and over 16 octaves around 1 / beta."""
    info = torch.finfo(dtype)
    draw = torch.Generator().manual_seed(seed)
    low, high = math.log2(info.tiny * info.eps), math.log2(info.max)
    anywhere = low + (high - low) * torch.rand(150, generator=draw, dtype=torch.float64)
    near = 16 * torch.rand(150, generator=draw, dtype=torch.float64) - 8 - math.log2(beta)
    signs = torch.randint(0, 2, (300,), generator=draw) * 2 - 1
    least = [info.tiny * info.eps, info.tiny, info.max]
    g = torch.cat((signs * 2 ** torch.cat((anywhere, near)), torch.tensor(least).double()))
    g = g.to(dtype)
    return g[g.isfinite() & (g != 0)]


def call(f: gaf.Activation, what: str, g: torch.Tensor) -> torch.Tensor:
    return f(g) if what == "value" else getattr(f, what)(g)


def made(cls: type[gaf.Activation], params: tuple[float, float]) -> gaf.Activation:
    """With as many of the numbers as it takes."""
    return cls(*sorted(params)) if cls is gaf.BiClip else cls(*params[: len(cls().params)])


@pairs_first(cls=list(EXACT), params=PARAMS, what=list(FORMULAS), dtype=DTYPES)
def test_against_mpmath(what, cls, dtype, params):
    f = made(cls, params)
    g = gradients(dtype, params[1], PARAMS.index(params))
    computed = call(f, what, g)
    assert computed.dtype == dtype
    for x, y in zip(g.tolist(), computed.tolist(), strict=True):
        error = error_in_ulp(y, exact(f, what, x), dtype)
        assert error <= tolerance(f, what, x, dtype), f"{f} {what} at {x}: {y}, {error} ulp"


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("cls", EXACT)
def test_python_floats_are_float64(cls, params):
    f = made(cls, params)
    for g in (0.0, 1e-320, -1e-5, 0.3 / params[1], -7.0, 1e300):
        for what in FORMULAS:
            computed = call(f, what, g)
            assert type(computed) is float
            assert computed == call(f, what, torch.tensor([g], dtype=torch.float64)).item()


@pairs_first(cls=list(EXACT), params=PARAMS, dtype=DTYPES)
def test_the_ends_of_the_range(cls, params, dtype):
    f = made(cls, params)
    g = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan], dtype=dtype)
    one = torch.ones((), dtype=dtype)

    value = f(g)
    assert value[:2].tolist() == [0, 0]
    assert value[:2].signbit().tolist() == [False, True]  # a zero keeps its sign
    bound = (f.bound * one.double()).to(dtype)
    torch.testing.assert_close(value[2:4], torch.stack((bound, -bound)))
    assert value[4].isnan()

    slope = (f.slope * one.double()).to(dtype)
    last = slope if cls is gaf.Line else 0 * one
    torch.testing.assert_close(f.derivative(g)[:4], torch.stack((slope, slope, last, last)))
    assert f.derivative(g)[4].isnan()

    assert f.integral(g)[:4].tolist() == [0, 0, math.inf, math.inf]
    assert f.integral(g)[4].isnan()


@pytest.mark.parametrize("cls", CURVED)
def test_the_gradients_the_function_exists_for_are_not_lost(cls):
    f = cls(0.1, 20.0)
    for dtype in DTYPES:  # log(relu(x) + 1) would be 0 from 6e-8 down in float32
        least = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
        assert f(torch.tensor(least, dtype=dtype)).item() == 2 * least


def test_a_wrong_formula_would_be_seen():
    class Sloppy(gaf.Log):
        @staticmethod
        def formula(xp, g, alpha, beta):
            return alpha * xp.sign(g) * xp.log(1 + beta * xp.abs(g))

    f = Sloppy(0.1, 20.0)
    g = gradients(torch.float32, 20.0, 0)
    errors = [
        error_in_ulp(y, exact(gaf.Log(0.1, 20.0), "value", x), torch.float32)
        for x, y in zip(g.tolist(), f(g).tolist(), strict=True)
    ]
    assert max(errors) > 1000
