"""gaf.verify: Definition 1 clause by clause, for the built-in functions and for functions that fail it."""

from __future__ import annotations

import math
import sys
from dataclasses import FrozenInstanceError, dataclass

import pytest
import sympy
import torch

import gaf
from gaf.functions import function_type
from gaf.functions.definition import STATEMENTS
from gaf.functions.verify import verify
from tests.functions.checks import check_derivative, check_facts, check_integral

CLAUSES = tuple(STATEMENTS)
EVERY = tuple(function_type(name)() for name in gaf.names())


def own(formula, symbolic=None) -> gaf.Activation:
    """A user's function that is not registered anywhere."""
    members = {"formula": staticmethod(formula), "__module__": __name__}
    if symbolic:
        members["symbolic"] = staticmethod(symbolic)
    return type("Own", (gaf.Activation,), members)()


def without_form(f: gaf.Activation) -> gaf.Activation:
    """The same function without a symbolic form, so that it is checked by values."""
    return type(type(f).__name__, (type(f),), {"symbolic": None})(*f.params)


def failing(verdict) -> set[str]:
    return {clause.name for clause in verdict.clauses if not clause.holds}


# --- the built-in functions ------------------------------------------------------------------

PARAMS = [(0.1, 20.0), (0.2, 10.0), (1e3, 1e-3), (1e-3, 1e7), (5.0, 1.5), (1e15, 1e-14)]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("cls", [gaf.Arctan, gaf.Tanh, gaf.Algebraic, gaf.Asinh])
def test_smooth_functions_meet_the_definition_and_it_is_proved(cls, params):
    verdict = verify(cls(*params))
    assert verdict
    assert verdict.holds
    assert [clause.name for clause in verdict.clauses] == [*CLAUSES, "symbolic form"]
    for name in CLAUSES:
        assert verdict[name].method == "symbolic"
        assert verdict[name].witness is None
        assert verdict[name].detail.startswith("for all alpha, beta > 0: ")


@pytest.mark.parametrize("params", PARAMS)
def test_log_meets_it_everywhere_but_at_0(params):
    verdict = verify(gaf.Log(*params))
    assert not verdict
    assert failing(verdict) == {"differentiable"}
    clause = verdict["differentiable"]
    assert clause.method == "symbolic"
    assert clause.witness == 0.0
    assert "f'' jumps from alpha*beta**2" in clause.detail
    assert "smooth elsewhere" in clause.detail


def test_log_says_how_far_the_second_derivative_jumps():
    clause = verify(gaf.Log(0.1, 20.0))["differentiable"]
    assert "from alpha*beta**2 = +40 to -alpha*beta**2 = -40 at 0" in clause.detail


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("cls", [gaf.Arctan, gaf.Tanh, gaf.Log])
def test_values_alone_lead_to_the_same_verdict(cls, params):
    f = cls(*params)
    verdict = verify(without_form(f))
    assert failing(verdict) == failing(verify(f))
    assert {clause.method for clause in verdict.clauses} == {"numeric"}
    assert [clause.name for clause in verdict.clauses] == list(CLAUSES)
    assert "<= |g| <=" in verdict["concave"].detail  # the range in which f'' could be seen
    if cls is gaf.Log:
        assert verdict["differentiable"].witness == 0.0
        assert "f'' jumps from +" in verdict["differentiable"].detail
        assert "smooth elsewhere" in verdict["differentiable"].detail


def test_saturation_is_no_violation():
    clause = verify(without_form(gaf.Tanh(0.1, 20.0)))["concave"]
    assert clause.holds
    assert "<= 0.8" in clause.detail  # beyond beta g = 17, tanh is 1 to the last bit


MISSED = {
    **{"log": {"differentiable"}, "softsign": {"differentiable"}},
    "line": {"restraining", "concave"},
    **{name: {"differentiable", "concave"} for name in ("sign", "clip", "biclip")},
}


@pytest.mark.parametrize("f", EVERY, ids=repr)
def test_what_each_registered_function_misses_by_proof_and_by_values(f):
    assert failing(verify(f)) == MISSED.get(f.name, set())
    assert failing(verify(without_form(f))) == MISSED.get(f.name, set())


def test_sign_is_a_limit_and_no_member():
    verdict = verify(gaf.Sign(0.1))
    assert str(verdict).startswith("Sign(alpha=0.1) does not meet Definition 1")
    assert verdict["differentiable"].method == verdict["concave"].method == "symbolic"
    assert "f jumps from -alpha = -0.1 to alpha = +0.1 at 0" in verdict["differentiable"].detail
    assert "f'' = 0 on a side of 0" in verdict["concave"].detail


def test_a_line_restrains_if_it_is_not_steep():
    assert failing(verify(gaf.Line(1.0))) == failing(verify(gaf.Line(0.5))) == {"concave"}


def test_where_clipping_has_its_kinks():
    assert abs(verify(gaf.Clip(3.0))["differentiable"].witness) == pytest.approx(3.0, rel=1e-4)
    clause = verify(gaf.BiClip(0.5, 2.0))["differentiable"]
    assert clause.witness == 0.0
    assert "f jumps from -0.5 to +0.5; also at g = 0.5" in clause.detail


# --- functions that fail ---------------------------------------------------------------------


def relu(xp, g):
    return xp.relu(g)


def clip(xp, g):
    return xp.clip(g, -0.3, 0.3)


def rounded_clip(xp, g):  # f' is continuous, f'' jumps at 1
    c = xp.clip(g, -1, 1)
    return c - c**3 / 3


FAILING = {
    # name: formula, symbolic form, clauses that fail
    "relu": (relu, lambda g: sympy.Max(g, 0), {"differentiable", "odd", "concave"}),
    "cube": (lambda xp, g: g**3, lambda g: g**3, {"restraining", "concave"}),
    "sine": (lambda xp, g: xp.sin(g), sympy.sin, {"increasing", "concave"}),
    "identity": (lambda xp, g: 1.0 * g, lambda g: g, {"concave"}),
    "double": (lambda xp, g: 2.0 * g, lambda g: 2 * g, {"restraining", "concave"}),
    "minus arctan": (
        *(lambda xp, g: -xp.arctan(g), lambda g: -sympy.atan(g)),
        {"increasing", "concave"},
    ),
    "sign": (lambda xp, g: xp.sign(g), sympy.sign, {"differentiable", "concave"}),
    "shifted": (
        *(lambda xp, g: xp.arctan(g) + 0.1, lambda g: sympy.atan(g) + sympy.Rational(0.1)),
        {"odd"},
    ),
    "zero": (lambda xp, g: 0.0 * g, lambda g: 0 * g, {"concave"}),
    "square root": (
        lambda xp, g: xp.sign(g) * xp.sqrt(xp.abs(g)),
        lambda g: sympy.sign(g) * sympy.sqrt(sympy.Abs(g)),
        {"differentiable"},
    ),
    "clip": (clip, None, {"differentiable", "concave"}),
    "rounded clip": (rounded_clip, None, {"differentiable"}),
    "rounding": (
        lambda xp, g: xp.round(g),
        None,
        {"differentiable", "restraining", "concave"},
    ),
    "one more": (
        lambda xp, g: g + xp.where(g > 0.3, 1.0, 0.0),
        None,
        {"differentiable", "odd", "restraining", "concave"},
    ),
    "wavy": (lambda xp, g: xp.arctan(g) + 0.01 * xp.sin(g), None, {"increasing", "concave"}),
    "inverse": (lambda xp, g: 1 / g, None, {"differentiable", "increasing", "odd", "concave"}),
}


WITH_AND_WITHOUT_FORM = [
    *((name, False) for name in FAILING),
    *((name, True) for name, (_, symbolic, _) in FAILING.items() if symbolic),
]


@pytest.mark.parametrize(("name", "with_form"), WITH_AND_WITHOUT_FORM)
def test_what_fails_and_where(name, with_form):
    formula, symbolic, expected = FAILING[name]
    f = own(formula, symbolic if with_form else None)
    verdict = verify(f)
    assert failing(verdict) == expected
    assert not verdict.holds

    for clause in verdict.clauses:
        assert (clause.witness is None) == clause.holds
    # each witness shows, by values of f, what it is a witness of
    if "odd" in expected:
        g = verdict["odd"].witness
        assert f(-g) != -f(g) or not math.isfinite(f(g))
    if "restraining" in expected:
        g = verdict["restraining"].witness
        assert f(g) > g > 0
    if "increasing" in expected:
        g = verdict["increasing"].witness
        assert f(g * 10 ** math.copysign(1 / 32, g)) < f(g)  # the next point of the grid
    if "concave" in expected:
        g = verdict["concave"].witness
        h = 1e-3 * abs(g)
        bend = (f(g + h) - 2 * f(g) + f(g - h)) / h**2
        assert name in ("rounding", "one more") or g * bend >= -1e-6


@pytest.mark.parametrize(
    ("formula", "where", "detail"),
    [
        (relu, 0.0, "f' jumps from -0 to +1"),
        (lambda xp, g: xp.sign(g), 0.0, "f jumps from -1 to +1"),
        (clip, 0.3, "f' jumps from +1 to +0"),
        (rounded_clip, 1.0, "f'' jumps from -1.998 to +0"),
        (lambda xp, g: xp.clip(g, -1e6, 1e6), 1e6, "f' jumps from +1 to +0"),
        (lambda xp, g: g / (1 + xp.abs(g)), 0.0, "f'' jumps from +2 to -2"),
        (lambda xp, g: xp.round(g), 0.5, "f jumps from +0 to +1"),
        (lambda xp, g: xp.sign(g) * xp.sqrt(xp.abs(g)), 0.0, "f' grows without bound"),
    ],
)
def test_kinks_and_jumps_are_found(formula, where, detail):
    clause = verify(own(formula))["differentiable"]
    assert not clause.holds
    assert abs(clause.witness) == pytest.approx(where, rel=1e-4)
    assert detail in clause.detail


@pytest.mark.parametrize("position", [1e-3, 0.0123, 0.7, 44.0])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_kink_is_found_wherever_it_is(position, order):
    strength = {0: 0.1, 1: 0.3 / (1 + position**2), 2: 0.3 / (1 + position**2)}[order]

    def formula(xp, g):
        beyond = xp.relu(xp.abs(g) - position)
        extra = xp.where(beyond > 0, beyond**order, 0.0)
        return xp.arctan(g) + strength * xp.sign(g) * extra

    clause = verify(own(formula))["differentiable"]
    assert abs(clause.witness) == pytest.approx(position, rel=1e-3)
    assert f"f{chr(39) * order} jumps" in clause.detail


def test_not_odd_is_shown_by_value():
    clause = verify(own(relu))["odd"]
    assert clause.witness == 1.0
    assert clause.detail == "f(1) = 1, f(-1) = 0"


def test_nan():
    everywhere = verify(own(lambda xp, g: g * math.nan))
    assert failing(everywhere) == set(CLAUSES)
    assert everywhere["odd"].detail == "f(0) is NaN"

    def overflowing(xp, g):  # tanh as in the textbook: inf / inf from g = 710 on
        return (xp.exp(g) - xp.exp(-g)) / (xp.exp(g) + xp.exp(-g))

    far = verify(own(overflowing))
    assert failing(far) == set(CLAUSES)
    assert math.isnan(own(overflowing)(far["odd"].witness))


def test_a_formula_that_raises():
    verdict = verify(own(lambda xp, g: 1 / 0))
    assert failing(verdict) == set(CLAUSES)
    assert all(clause.witness is None for clause in verdict.clauses)
    assert verdict["odd"].detail == "f raised ZeroDivisionError: division by zero"
    assert "f raised GafError: f of shape" in str(verify(own(lambda xp, g: g.sum())))


def test_fields_that_were_never_declared():
    class Forgotten(gaf.Activation):  # no @gaf.register, so scale is no parameter
        scale: float = 1.0

        @staticmethod
        def formula(xp, g, scale):
            return scale * xp.arctan(g)

    assert "f raised TypeError" in verify(Forgotten())["odd"].detail


@pytest.mark.parametrize("wrong", [None, "arctan", gaf.Arctan, torch.arctan])
def test_only_an_activation_is_verified(wrong):
    with pytest.raises(
        TypeError, match=r"^verify a function such as gaf.Arctan\(0.1, 20\), got \w+$"
    ):
        verify(wrong)


# --- functions that pass ---------------------------------------------------------------------

PASSING = {
    "algebraic": (lambda xp, g: g / xp.sqrt(1 + g * g), lambda g: g / sympy.sqrt(1 + g**2)),
    "asinh": (lambda xp, g: xp.asinh(g), sympy.asinh),
    "erf": (lambda xp, g: xp.erf(g), sympy.erf),
    "gudermann": (
        lambda xp, g: 2 * xp.arctan(xp.tanh(g / 2)),
        lambda g: 2 * sympy.atan(sympy.tanh(g / 2)),
    ),
    "rounding at its worst": (
        lambda xp, g: 2 / (1 + xp.exp(-g)) - 1,  # all rounding below 1e-16
        lambda g: 2 / (1 + sympy.exp(-g)) - 1,
    ),
    "never quite flat": (lambda xp, g: g / 2 + xp.tanh(g), lambda g: g / 2 + sympy.tanh(g)),
}


@pytest.mark.parametrize(
    "scale", [1.0, *(pytest.param(scale, marks=pytest.mark.slow) for scale in (1e-7, 1e5))]
)
@pytest.mark.parametrize("name", PASSING)
def test_other_functions_meet_the_definition(name, scale):
    formula, symbolic = PASSING[name]
    by_values = own(lambda xp, g: scale * formula(xp, g / scale))
    assert verify(by_values), str(verify(by_values))
    size = sympy.Rational(scale)
    with_form = own(type(by_values).formula, lambda g: size * symbolic(g / size))
    verdict = verify(with_form)
    assert verdict, str(verdict)
    assert {verdict[clause].method for clause in CLAUSES} == {"symbolic"}


# --- the symbolic form -----------------------------------------------------------------------


def test_a_form_of_another_function_is_noticed_and_not_used():
    f = own(lambda xp, g: xp.arctan(g), sympy.tanh)
    verdict = verify(f)
    assert failing(verdict) == {"symbolic form"}
    clause = verdict["symbolic form"]
    assert clause.statement == "the symbolic form is the formula"
    assert math.tanh(clause.witness) != f(clause.witness)
    assert {c.method for c in verdict.clauses} == {"numeric"}
    assert "the symbolic form is not the formula" in str(verdict)


def test_a_form_that_is_right_on_one_side_only():
    verdict = verify(own(relu, lambda g: g))
    assert failing(verdict) == {"differentiable", "odd", "concave", "symbolic form"}
    assert verdict["symbolic form"].witness < 0


def test_a_form_that_raises():
    verdict = verify(own(lambda xp, g: xp.arctan(g), lambda g: 1 / 0))
    assert failing(verdict) == {"symbolic form"}
    assert verdict["symbolic form"].detail == "ZeroDivisionError: division by zero"


def test_parameters_that_are_not_positive_are_put_in():
    @dataclass(frozen=True, repr=False)
    class Shifted(gaf.Activation):
        t: float = -0.5  # also the name sympy would print for |g|

        @staticmethod
        def formula(xp, g, t):
            return xp.arctan(g) + t

        @staticmethod
        def symbolic(g, t):
            return sympy.atan(g) + t

    verdict = verify(Shifted())
    assert failing(verdict) == {"odd"}
    assert verdict["concave"].method == "symbolic"
    assert "for all" not in verdict["concave"].detail
    assert verify(Shifted(0.0)).holds


def test_what_sympy_cannot_decide_is_checked_by_values():
    verdict = verify(own(lambda xp, g: xp.sin(g), sympy.sin))
    methods = {clause.name: clause.method for clause in verdict.clauses}
    assert methods["odd"] == methods["differentiable"] == "symbolic"
    assert methods["increasing"] == methods["concave"] == "numeric"


def test_without_sympy_it_is_checked_by_values_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    verdict = verify(gaf.Log(0.1, 20.0))
    assert failing(verdict) == {"differentiable"}
    assert {clause.method for clause in verdict.clauses} == {"numeric"}
    assert "sympy, which proves it, is not installed" in str(verdict)


# --- the verdict -----------------------------------------------------------------------------


def test_the_verdict_reads_as_a_table():
    lines = str(verify(gaf.Log(0.1, 20.0))).splitlines()
    assert lines[0] == "Log(alpha=0.1, beta=20.0) does not meet Definition 1"
    assert lines[1].split() == ["clause", "holds", "method", "witness", "detail"]
    column = lines[1].index("detail")
    assert all(line[column - 1] == " " != line[column] for line in lines[1:])
    assert [line.split()[0] for line in lines[2:7]] == list(CLAUSES)
    assert lines[2].split()[1:6] == ["NO", "symbolic", "g", "=", "0"]
    assert lines[3].split()[1:4] == ["yes", "symbolic", "-"]
    assert (
        str(verify(gaf.Arctan())).splitlines()[0]
        == "Arctan(alpha=0.1, beta=20.0) meets Definition 1"
    )


def test_the_verdict_is_frozen_and_indexed_by_name():
    verdict = verify(gaf.Tanh())
    with pytest.raises(FrozenInstanceError):
        verdict.clauses = ()
    with pytest.raises(FrozenInstanceError):
        verdict["odd"].holds = False
    with pytest.raises(
        KeyError, match="no clause named 'even'; there are differentiable, increasing"
    ):
        verdict["even"]
    assert [clause.statement[:4] for clause in verdict.clauses[:5]] == [
        "(1a)",
        "(1b)",
        "(2) ",
        "(3) ",
        "(4) ",
    ]


# --- the checks of every function, and that they can fail ------------------------------------


@pytest.mark.parametrize("f", EVERY, ids=repr)
@pytest.mark.parametrize("check", [check_derivative, check_integral, check_facts])
def test_every_registered_function_passes_the_checks(check, f):
    check(f)


class WrongDerivative(gaf.Arctan):
    @staticmethod
    def formula_derivative(xp, g, alpha, beta):
        return alpha * beta / (1 + 1.0001 * (beta * g) ** 2)


class WrongIntegral(gaf.Tanh):
    @staticmethod
    def formula_integral(xp, g, alpha, beta):
        return 1.0001 * gaf.Tanh.formula_integral(xp, g, alpha, beta)


def test_a_wrong_derivative_fails_the_check():
    check_integral(WrongDerivative())
    with pytest.raises(AssertionError, match=r"derivative is .* differences say"):
        check_derivative(WrongDerivative())


def test_a_wrong_integral_fails_the_check():
    check_derivative(WrongIntegral())
    with pytest.raises(AssertionError, match=r"integral is .* differences say"):
        check_integral(WrongIntegral())
