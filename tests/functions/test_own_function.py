"""A user's own function in a few lines: what it gets for free is right."""

from __future__ import annotations

import doctest
import math
import types

import pytest
import torch

import gaf
from gaf.functions import registry
from tests.functions.checks import check_derivative, check_facts, check_integral
from tests.functions.exact import EXACT

BUILT_IN = {kind.name for kind in EXACT}


@pytest.fixture(autouse=True)
def clean_registry():
    """Leave the functions of this file out of every other test, and those of docstrings out of it."""
    before = dict(registry._REGISTRY)
    for name in set(before) - BUILT_IN:
        del registry._REGISTRY[name]
    yield
    registry._REGISTRY.clear()
    registry._REGISTRY.update(before)


def softclip():
    """One parameter: f(g) = g / (1 + |g| / scale)."""

    @gaf.register
    class Softclip(gaf.Activation):
        scale: float = 1.0

        @staticmethod
        def formula(xp, g, scale):
            return g / (1 + xp.abs(g) / scale)

    return Softclip


def blend():
    """Three parameters: f(g) = a asinh(b g) + c tanh(b g)."""

    @gaf.register
    class Blend(gaf.Activation):
        a: float = 0.1
        b: float = 20.0
        c: float = 0.05

        @staticmethod
        def formula(xp, g, a, b, c):
            return a * xp.asinh(b * g) + c * xp.tanh(b * g)

    return Blend


# --- it is a function like any other ---------------------------------------------------------


def test_one_parameter():
    f = softclip()(0.5)
    assert repr(f) == "Softclip(scale=0.5)"
    assert "softclip" in gaf.names()
    assert gaf.parse("softclip(0.5)") == f == gaf.parse("SoftClip(scale=0.5)")
    assert gaf.parse("softclip") == type(f)(1.0)
    assert f(0.5) == 0.25
    assert torch.equal(f(torch.tensor([0.5, -0.5])), torch.tensor([0.25, -0.25]))
    with pytest.raises(ValueError, match=r"softclip takes \(scale\)"):
        gaf.parse("softclip(1, 2)")
    with pytest.raises(ValueError, match="Softclip: scale must be finite, got inf"):
        type(f)(math.inf)


def test_three_parameters():
    f = blend()(0.2, 10.0, 0.3)
    assert f.params == (0.2, 10.0, 0.3)
    assert repr(f) == "Blend(a=0.2, b=10.0, c=0.3)"
    assert gaf.parse(repr(f)) == f
    assert gaf.parse("blend(0.2, c=0.3)") == type(f)(0.2, 20.0, 0.3)
    assert f(0.1) == pytest.approx(0.2 * math.asinh(1) + 0.3 * math.tanh(1), rel=1e-15)


def test_no_parameter():
    @gaf.register
    class Plain(gaf.Activation):
        @staticmethod
        def formula(xp, g):
            return xp.arctan(g)

    assert gaf.parse("plain") == Plain()
    assert repr(Plain()) == "Plain()"
    assert Plain()(1.0) == math.pi / 4


def test_its_own_refusals():
    @gaf.register
    class Power(gaf.Activation):
        exponent: float = 0.5

        def check(self):
            if not 0 < self.exponent < 1:
                raise ValueError(f"exponent must be between 0 and 1, got {self.exponent}")

        @staticmethod
        def formula(xp, g, exponent):
            return xp.sign(g) * xp.expm1(exponent * xp.log1p(xp.abs(g)))

    with pytest.raises(ValueError, match=r"exponent must be between 0 and 1, got 2\.0"):
        gaf.parse("power(2)")
    assert Power(0.5)(-3.0) == pytest.approx(-1.0, rel=1e-15)


# --- what it gets for free -------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-3, 0.5, 1.0, 300.0])
def test_defaults_against_closed_forms_with_one_parameter(scale):
    f = softclip()(scale)
    g = torch.cat((torch.linspace(-5, 5, 101), torch.logspace(-8, 8, 33))).double()
    x = g.abs() / scale
    error = (f.derivative(g) - 1 / (1 + x) ** 2).abs()
    assert (error <= 1e-15 / (1 + x)).all()  # autograd subtracts terms of the size of 1 / (1 + x)
    integral = scale**2 * torch.where(  # x - ln(1 + x), by its series where that cancels
        x < 1e-3, x**2 / 2 - x**3 / 3 + x**4 / 4 - x**5 / 5, x - torch.log1p(x)
    )
    torch.testing.assert_close(f.integral(g), integral, rtol=1e-9, atol=0)
    assert f.slope == 1.0
    assert f.bound == pytest.approx(scale, rel=1e-14)
    assert f.crossover == 0.0


@pytest.mark.parametrize("params", [(0.1, 20.0, 0.05), (1.0, 1.0, 1.0), (1e3, 1e-2, 5.0)])
def test_defaults_against_closed_forms_with_three_parameters(params):
    f = blend()(*params)
    a, b, c = params
    g = torch.cat((torch.linspace(-5, 5, 100), torch.logspace(-6, 4, 33))).double()
    x = b * g
    root = torch.sqrt(1 + x**2)
    slope = a * b / root + c * b / torch.cosh(x) ** 2
    torch.testing.assert_close(f.derivative(g), slope, rtol=1e-12, atol=1e-15 * a * b)
    integral = a / b * (x * torch.asinh(x) - x**2 / (root + 1)) + c / b * (
        # ln cosh(x)
        torch.where(
            x.abs() < 1,
            torch.log1p(2 * torch.sinh(x / 2) ** 2),
            x.abs() - math.log(2) + torch.log1p(torch.exp(-2 * x.abs())),
        )
    )
    torch.testing.assert_close(f.integral(g), integral, rtol=1e-10, atol=0)
    assert f.slope == pytest.approx((a + c) * b, rel=1e-15)
    assert f.bound == math.inf
    assert f(f.crossover) == pytest.approx(f.crossover, rel=1e-14)


def test_crossover_of_a_function_that_never_falls_below_the_identity():
    @gaf.register
    class Steep(gaf.Activation):
        @staticmethod
        def formula(xp, g):
            return 2 * g + xp.arctan(g)

    assert Steep().crossover == math.inf
    assert Steep().bound == math.inf


def test_a_closed_form_replaces_the_default():
    calls = []

    @gaf.register
    class Counted(gaf.Activation):
        @staticmethod
        def formula(xp, g):
            return xp.arctan(g)

        @staticmethod
        def formula_derivative(xp, g):
            calls.append("derivative")
            return 1 / (1 + g * g)

        @staticmethod
        def formula_integral(xp, g):
            calls.append("integral")
            return g * xp.arctan(g) - xp.log1p(g * g) / 2

    f = Counted()
    assert f.derivative(1.0) == 0.5
    assert f.integral(1.0) == pytest.approx(math.pi / 4 - math.log(2) / 2)
    assert calls == ["derivative", "integral"]
    check_derivative(f)
    check_integral(f)


@pytest.mark.parametrize("make", [softclip, blend], ids=lambda make: make.__name__)
def test_the_checks_of_every_function_hold(make):
    f = make()()
    check_derivative(f)
    check_integral(f)
    check_facts(f)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.complex64], ids=str)
def test_the_lift_is_free_too(dtype):
    f = blend()()
    g = torch.randn(30, dtype=dtype)
    assert f.derivative(g).dtype == f.integral(g).dtype == f(g).dtype == dtype
    assert gaf.activate_grad_([torch.nn.Parameter(torch.zeros(1))], f) is not None


# --- registration ----------------------------------------------------------------------------


def test_the_same_definition_again_replaces_the_first():
    first, second = softclip(), softclip()
    assert first is not second
    assert type(gaf.parse("softclip")) is second


def test_another_class_of_the_same_name_is_refused():
    def elsewhere():
        @gaf.register
        class Softclip(gaf.Activation):
            @staticmethod
            def formula(xp, g):
                return g

    mine = softclip()
    with pytest.raises(ValueError, match="a function named 'softclip' exists already"):
        elsewhere()
    assert type(gaf.parse("softclip")) is mine


def test_a_built_in_name_is_refused():
    class Arctan(gaf.Activation):
        @staticmethod
        def formula(xp, g):
            return g

    with pytest.raises(ValueError, match=r"'arctan' exists already \(gaf.functions.arctan\)"):
        gaf.register(Arctan)
    assert type(gaf.parse("arctan")) is gaf.Arctan


@pytest.mark.parametrize("wrong", [int, 3, "softclip", lambda g: g])
def test_only_activations_are_registered(wrong):
    with pytest.raises(TypeError, match=r"register a subclass of gaf\.Activation"):
        gaf.register(wrong)


def test_a_formula_is_needed():
    class Nothing(gaf.Activation):
        pass

    with pytest.raises(TypeError, match=r"Nothing has no formula\(xp, g, \*parameters\)"):
        gaf.register(Nothing)


def test_the_example_in_the_docstring_is_a_function_like_any_other():
    example = doctest.DocTestFinder().find(gaf.register, "register", globs={})[0]
    runner = doctest.DocTestRunner(verbose=False)
    assert runner.run(example, out=lambda text: None).failed == 0
    name = (set(gaf.names()) - BUILT_IN).pop()
    for f in (gaf.parse(name), gaf.parse(f"{name}(0.5)"), gaf.parse(f"{name}(7)")):
        check_derivative(f)
        check_integral(f)
        check_facts(f)


def test_a_function_of_a_module_that_was_reloaded():
    for _ in range(2):
        module = types.ModuleType("reloaded")
        source = "import gaf\n@gaf.register\nclass Again(gaf.Activation):\n"
        source += "    @staticmethod\n    def formula(xp, g):\n        return xp.tanh(g)\n"
        exec(source, vars(module))
    assert gaf.parse("again")(0.0) == 0.0


def test_what_is_easily_forgotten():
    """The decorator, the annotation, the static method: a sentence for each."""

    class Unregistered(gaf.Activation):
        @staticmethod
        def formula(xp, g):
            return g

    with pytest.raises(TypeError, match=r"put @gaf.register above the class"):
        gaf.SGD([torch.zeros(1)], lr=0.1, activation=Unregistered())
    with pytest.raises(TypeError, match="annotated fields of the class"):

        @gaf.register
        class Unannotated(gaf.Activation):
            alpha = 1.0

            @staticmethod
            def formula(xp, g, alpha):
                return alpha * g

    assert "unannotated" not in gaf.names()
