"""Functions as values: equal, hashable, named, parsed, refused; and the facts they carry."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gaf
from gaf.functions import PAPER, as_activation, function_type
from tests.functions.checks import check_facts
from tests.functions.exact import CURVED, EXACT, exact
from tests.pairs import one_each

EPS = torch.finfo(torch.float64).eps


def instances():
    """Every registered function, with its defaults and with other values."""
    for name in gaf.names():
        cls = function_type(name)
        default = cls()
        yield default
        yield cls(*(1.25 * value + 1 / 3 for value in default.params))


EVERY = tuple(instances())


@pytest.mark.parametrize("f", EVERY, ids=repr)
class TestEveryFunction:
    def test_is_frozen(self, f):
        for field in fields(f):
            with pytest.raises(FrozenInstanceError):
                setattr(f, field.name, 1.0)

    def test_is_equal_and_hashed_by_value(self, f):
        twin = type(f)(*f.params)
        assert twin == f
        assert hash(twin) == hash(f)
        assert len({twin, f}) == 1
        for position in range(len(f.params)):
            params = list(f.params)
            params[position] *= 1.5
            assert type(f)(*params) != f

    def test_repr_round_trips(self, f):
        assert eval(repr(f), vars(gaf)) == f
        assert gaf.parse(repr(f)) == f
        assert gaf.parse(f"{f.name}{f.params}") == f

    def test_survives_pickle_and_copy(self, f):
        f.bound, f.crossover  # noqa: B018  # cached; must not get in the way
        for twin in (pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f)):
            assert twin == f
            assert repr(twin) == repr(f)
            assert twin(0.25) == f(0.25)

    def test_parameters_are_floats_in_order(self, f):
        assert f.params == tuple(getattr(f, field.name) for field in fields(f))
        assert all(type(value) is float for value in f.params)

    def test_facts(self, f):
        check_facts(f)

    def test_needs_a_tensor_or_a_number(self, f):
        for wrong in ("0.1", None, [0.1], 1j):
            with pytest.raises(TypeError, match=f"{f.name} takes a tensor or a number"):
                f(wrong)


def test_functions_of_different_kinds_differ():
    assert len({cls(0.1, 20.0) for cls in CURVED}) == len(CURVED)


def test_the_defaults_are_the_first_preset():
    assert {cls().params for cls in CURVED} == {(0.1, 20.0)}


# --- parameters that make no sense -----------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "name"), [(cls, field.name) for cls in EXACT for field in fields(cls)]
)
@pytest.mark.parametrize("value", [0, 0.0, -0.0, -1.5, math.inf, -math.inf, math.nan])
def test_a_parameter_must_be_positive_and_finite(cls, name, value):
    with pytest.raises(
        ValueError, match=f"^{cls.__name__}: {name} must be positive and finite, got"
    ):
        cls(**{name: value})


@pytest.mark.parametrize("value", [True, "0.1", None, 1j, [0.1], torch.tensor(0.1)], ids=repr)
def test_a_parameter_must_be_a_number(value):
    with pytest.raises(TypeError, match=r"^Arctan: alpha must be a number, got \w+$"):
        gaf.Arctan(value, 20.0)
    with pytest.raises(TypeError, match=r"^Arctan: beta must be a number, got \w+$"):
        gaf.Arctan(0.1, value)


def test_an_integer_beyond_the_floats_is_refused():
    with pytest.raises(ValueError, match=r"^Arctan: alpha must be finite, got an integer beyond"):
        gaf.Arctan(10**400)
    with pytest.raises(ValueError, match="alpha must be finite"):
        gaf.parse(f"arctan({10**400})")


def test_a_slope_out_of_range_is_refused():
    """In float32, which gradients are computed in, f would be NaN at 0."""
    for factors in [(1e30, 1e10), (1e-30, 1e-10)]:
        with pytest.raises(ValueError, match=r"alpha \* beta must be within the range of float32"):
            gaf.Tanh(*factors)
    for factors in [(1e39, 1.0), (1e-39, 1.0)]:
        with pytest.raises(ValueError, match="alpha must be within the range of float32, got 1e"):
            gaf.Tanh(*factors)


def test_any_real_number_will_do():
    assert gaf.Arctan(Fraction(1, 10), 20) == gaf.Arctan(0.1, 20.0)


# --- parse -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("arctan(0.1, 20)", gaf.Arctan(0.1, 20)),
        ("arctan(0.2,10.)", gaf.Arctan(0.2, 10)),
        ("  tanh( 2e-1 , 1e1 )  ", gaf.Tanh(0.2, 10)),
        ("log(alpha=0.2, beta=10)", gaf.Log(0.2, 10)),
        ("log(beta=10, alpha=0.2)", gaf.Log(0.2, 10)),
        ("log(0.2, beta=10)", gaf.Log(0.2, 10)),
        ("log(beta=10)", gaf.Log(0.1, 10)),
        ("log(0.2)", gaf.Log(0.2, 20)),
        ("Arctan(0.1, 20)", gaf.Arctan(0.1, 20)),
        ("ARCTAN", gaf.Arctan()),
        ("tanh()", gaf.Tanh()),
        ("tanh(0.2,\n10)", gaf.Tanh(0.2, 10)),
        ("tanh(+0.2, 1_0)", gaf.Tanh(0.2, 10)),
    ],
)
def test_parse(text, expected):
    assert gaf.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("arctn(0.1, 20)", "unknown gradient activation function 'arctn'; did you mean 'arctan'?"),
        ("Tahn", "unknown gradient activation function 'Tahn'; did you mean 'tanh'?"),
        ("arctan(1, 2, 3)", "cannot read 'arctan(1, 2, 3)': arctan takes (alpha, beta)"),
        ("log(gamma=1)", "cannot read 'log(gamma=1)': log takes (alpha, beta)"),
        ("log(1, alpha=1)", "cannot read 'log(1, alpha=1)': log takes (alpha, beta)"),
        ("tanh('a')", "cannot read \"tanh('a')\": Tanh: alpha must be a number, got str"),
        ("tanh(True)", "cannot read 'tanh(True)': Tanh: alpha must be a number, got bool"),
        ("tanh([1])", "cannot read 'tanh([1])': Tanh: alpha must be a number, got list"),
        ("tanh(-1)", "Tanh: alpha must be positive and finite, got -1.0"),
        ("tanh(1e999)", "Tanh: alpha must be positive and finite, got inf"),
    ],
)
def test_parse_says_what_is_wrong(text, sentence):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the sentence is compared below
        gaf.parse(text)
    assert str(caught.value) == sentence


def test_an_unknown_name_near_to_none_lists_them():
    with pytest.raises(ValueError, match=r"unknown .* 'qqq'; known are algebraic, arctan, asinh, "):
        gaf.parse("qqq")


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "arctan(0.1", "arctan 0.1 20", "arctan(0.1 20)", "0.1", "(0.1, 20)", "\0"),
        *("arctan(0.1)(20)", "gaf.arctan(0.1)", "arctan; tanh", "arctan\ntanh", "f = arctan(1)"),
        *(
            "arctan(alpha=1, alpha=2)",
            "arctan(inf)",
            "arctan(1 * 2)",
            "(" * 300,
            "arctan" + "()" * 5,
        ),
        *(
            "arctan(*[1])",
            "arctan(**{'alpha': 1})",
            "arctan(x := 1)",
            "lambda: arctan",
            "arctan[0]",
        ),
        *("[tanh for tanh in (1,)]", "arctan(print(1))", "arctan(().__class__)", "arctan(f'{1}')"),
    ],
    ids=lambda text: repr(text[:30]),
)
def test_parse_refuses_what_is_no_name_with_numbers(text):
    with pytest.raises(ValueError, match=r"(?s)^cannot read .*: write a name and numbers, such as"):
        gaf.parse(text)


@pytest.mark.parametrize(
    "template",
    [
        "__import__('os').system('touch {}')",
        "arctan(__import__('os').system('touch {}'))",
        "arctan(*[open('{}', 'w')])",
        "arctan(alpha=open('{}', 'w'))",
        "open('{}', 'w')",
        'exec(\'open("{}", "w")\')',
    ],
)
def test_parse_executes_nothing(template, tmp_path):
    target = tmp_path / "made"
    with pytest.raises(ValueError, match=r"cannot read|unknown gradient activation function"):
        gaf.parse(template.format(target))
    assert not target.exists()


@pytest.mark.parametrize("wrong", [None, 1, gaf.Arctan, b"arctan", gaf.Arctan()], ids=repr)
def test_parse_needs_a_string(wrong):
    with pytest.raises(TypeError, match="name a function by a string such as"):
        gaf.parse(wrong)


def test_as_activation():
    f = gaf.Log(0.2, 10)
    assert as_activation(f) is f
    assert as_activation(None) is None
    assert as_activation("log(0.2, 10)") == f
    with pytest.raises(TypeError, match=r"pass an instance such as Log\(...\), not the class"):
        as_activation(gaf.Log)
    with pytest.raises(TypeError, match=r"activation must be a function such as .*; got float"):
        as_activation(0.1)


# --- slope, bound, crossover -----------------------------------------------------------------


@pytest.mark.parametrize("cls", CURVED)
def test_slope_and_bound(cls):
    f = cls(0.3, 7.0)
    assert f.slope == 0.3 * 7.0
    others = {gaf.Arctan: 0.3 * math.pi / 2, gaf.Log: math.inf, gaf.Asinh: math.inf}
    assert f.bound == others.get(cls, 0.3)


def test_facts_of_what_is_not_in_the_family():
    inf = math.inf
    facts = {f: (f.slope, f.bound, f.crossover) for f in (gaf.Line(0.5), gaf.Line(3), gaf.Sign(7))}
    assert list(facts.values()) == [(0.5, inf, 0.0), (3.0, inf, inf), (inf, 7.0, 7.0)]
    assert (gaf.Clip(3).slope, gaf.Clip(3).bound, gaf.Clip(3).crossover) == (1.0, 3.0, 0.0)
    assert (gaf.BiClip(2, 3).slope, gaf.BiClip(2, 3).bound, gaf.BiClip(2, 3).crossover) == (
        inf,
        3,
        2,
    )


def test_biclip_does_what_its_paper_says():
    """sign(g) (d where abs(g) <= d, u where abs(g) >= u, else abs(g)), which is 0 at 0."""
    f = gaf.BiClip(0.25, 2.0)
    g = torch.tensor([-9.0, -2.0, -1.0, -0.25, -1e-30, 0.0, 1e-30, 0.25, 0.5, 2.0, 1e30])
    expected = [-2.0, -2.0, -1.0, -0.25, -0.25, 0.0, 0.25, 0.25, 0.5, 2.0, 2.0]
    assert f(g).tolist() == expected
    assert gaf.BiClip(1, 1)(g).tolist() == gaf.Sign(1)(g).tolist()
    with pytest.raises(ValueError, match=r"^BiClip: low must be at most high, got 2.0 and 1.0$"):
        gaf.BiClip(2, 1)


@pytest.mark.parametrize("cls", CURVED)
@pytest.mark.parametrize("params", [(0.1, 10.0), (0.1, 5.0), (1e-3, 1e-3), (1.0, 1 - 1e-15)])
def test_without_enlargement_the_crossover_is_0(cls, params):
    f = cls(*params)
    assert f.slope <= 1
    assert f.crossover == 0.0


STEEP = (
    *((0.1, 20.0), (0.2, 10.0), (5.0, 1.5), (1.0, 2.0), (1e7, 1e7), (1e-3, 1e7), (100.0, 1e7)),
    *((1.0, 1 + 1e-2), (1.0, 1 + 1e-4), (1.0, 1 + 1e-6), (1e3, (1 + 1e-6) * 1e-3)),
    *((1e-8, 1.001e8), (1e15, 1e15), (1e38, 1e-30), (1e-30, 1e38), (1e30, 1e-29)),
)


@one_each(params=STEEP, cls=tuple(cls for cls in CURVED if cls not in PAPER))
def test_crossover_of_other_functions(cls, params):
    check_crossover(cls, params)


@pytest.mark.parametrize("cls", PAPER)
@pytest.mark.parametrize("params", STEEP)
def test_crossover(cls, params):
    check_crossover(cls, params)


def check_crossover(cls, params):
    f = cls(*params)
    c = f.crossover
    assert 0 < c < math.inf
    assert abs(f(c) - c) <= 4 * math.ulp(c)
    below, above = 0.9 * c, 1.1 * c
    assert f(below) > below  # enlarged
    assert f(above) < above  # restrained
    assert f(-below) < -below
    assert f(-above) > -above

    with mpmath.workdps(50):  # in units of c, to suit findroot's tolerances
        relative = lambda g: exact(f, "value", g * c) / c - g  # noqa: E731
        root = mpmath.findroot(relative, (0.9, 1.1), solver="anderson", tol=1e-40)
        # f(g) = g is met to an ulp by all g within eps / (1 - f'(c)) of the root
        assert abs(1 - root) <= 8 * EPS / (1 - f.derivative(c))


@settings(max_examples=60)
@given(
    cls=st.sampled_from(CURVED),
    alpha=st.floats(1e-25, 1e25),
    excess=st.floats(1e-10, 1e10),
)
def test_crossover_anywhere(cls, alpha, excess):
    f = cls(alpha, (1 + excess) / alpha)
    c = f.crossover
    assert abs(f(c) - c) <= 8 * math.ulp(c)
    check_facts(f)
