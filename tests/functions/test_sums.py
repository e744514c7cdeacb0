"""Sums of functions: values like any other, named, stored and restored by a name and plain numbers."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest
import torch

import gaf
from gaf.functions import function_type, registry
from gaf.functions.verify import verify
from tests.functions.checks import check_derivative, check_facts, check_integral

TRUST = gaf.Tanh(1.35, 0.667) + gaf.Log(0.15, 0.667)
SUMS = (
    TRUST,
    gaf.Arctan(0.1, 20) + gaf.Arctan(0.3, 2) + gaf.Asinh(),
    gaf.Line(0.5) + gaf.Tanh(0.2, 10),
    gaf.Algebraic() + gaf.Softsign(0.5, 3),
)


def test_it_is_named_by_its_terms_and_holds_plain_numbers():
    assert TRUST.name == "tanh+log"
    assert TRUST.params == (1.35, 0.667, 0.15, 0.667)
    assert all(type(value) is float for value in TRUST.params)
    assert (TRUST.alpha1, TRUST.beta1, TRUST.alpha2, TRUST.beta2) == TRUST.params
    assert TRUST.terms == (gaf.Tanh(1.35, 0.667), gaf.Log(0.15, 0.667))
    assert gaf.Tanh().terms == (gaf.Tanh(),)
    assert isinstance(TRUST, gaf.Activation)
    with pytest.raises(FrozenInstanceError):
        TRUST.alpha1 = 1.0


@pytest.mark.parametrize("f", SUMS, ids=lambda f: f.name)
class TestEverySum:
    def test_is_a_value(self, f):
        twin = function_type(f.name)(*f.params)
        assert twin == f
        assert hash(twin) == hash(f)
        assert type(f)(*(1.5 * value for value in f.params)) != f

    def test_is_read_back(self, f):
        assert gaf.parse(repr(f)) == f
        assert eval(repr(f), vars(gaf)) == f
        for restored in (pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f)):
            assert restored == f
            assert type(restored) is type(f)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
    def test_is_the_sum(self, f, dtype):
        g = torch.tensor([0.0, -1e-6, 0.3, -7.0, 1e4, -torch.inf], dtype=dtype)
        wide = g.to(torch.promote_types(dtype, torch.float32))
        for what in ("__call__", "derivative", "integral"):
            total = sum(getattr(term, what)(wide) for term in f.terms)
            assert torch.equal(getattr(f, what)(g), total.to(dtype))

    def test_passes_the_checks_of_every_function(self, f):
        check_derivative(f)
        check_integral(f)
        check_facts(f)
        assert f.slope == sum(term.slope for term in f.terms)
        assert f.bound == sum(term.bound for term in f.terms)


def test_the_order_counts_and_brackets_do_not():
    a, b, c = gaf.Tanh(), gaf.Log(), gaf.Arctan()
    assert (a + b) + c == a + (b + c) == gaf.parse("tanh + (log + arctan)")
    assert (a + b).params == (b + a).params
    assert a + b != b + a


def test_parse_reads_each_term_as_if_it_were_alone():
    assert gaf.parse("tanh(1.35, 0.667) + log(0.15, 0.667)") == TRUST
    assert gaf.parse("Tanh(beta=3)+log") == gaf.Tanh(beta=3) + gaf.Log()
    for text in ("tanh - log", "tanh + 1", "tanh +", "+tanh", "2 * tanh", "tanh + log(0.1"):
        with pytest.raises(ValueError, match="write a name and numbers"):
            gaf.parse(text)
    with pytest.raises(ValueError, match="unknown gradient activation function 'nope'"):
        gaf.parse("tanh + nope")
    with pytest.raises(ValueError, match=r"Log: alpha must be positive and finite, got -1\.0"):
        gaf.parse("tanh + log(-1)")


def test_what_is_no_term():
    sentence = "Auto sets its values for each tensor while training and cannot be a term of a sum"
    for make in (lambda: gaf.Tanh() + gaf.Auto(), lambda: gaf.parse("auto + tanh")):
        with pytest.raises(gaf.GafError, match=sentence):
            make()
    with pytest.raises(gaf.GafError, match=sentence):
        function_type("tanh+auto")
    with pytest.raises(TypeError, match="unsupported operand"):
        gaf.Tanh() + 1.0

    class Unregistered(gaf.Activation):
        formula = staticmethod(lambda xp, g: g)

    with pytest.raises(TypeError, match=r"put @gaf.register above the class"):
        gaf.Tanh() + Unregistered()


def test_a_term_that_is_registered_again_is_taken_anew():
    def tangent(factor):
        @gaf.register
        class Tangent(gaf.Activation):
            @staticmethod
            def formula(xp, g):
                return factor * xp.arctan(g)

        return Tangent()

    w = torch.zeros(1, requires_grad=True)
    try:
        first = tangent(1.0) + gaf.Line(1.0)
        opt = gaf.SGD([w], lr=1.0, activation=first)
        assert function_type("tangent+line") is type(first)
        tangent(3.0)
        assert function_type("tangent+line") is not type(first)
        w.grad = torch.ones(1)
        opt.step()
        assert w.item() == pytest.approx(-(3 * torch.pi / 4 + 1))
        assert type(gaf.Tanh() + gaf.Log()) is type(TRUST)  # untouched by what was registered
    finally:
        registry._REGISTRY.pop("tangent")


def test_closed_forms_only_where_all_terms_have_them():
    @gaf.register
    class Plain(gaf.Activation):
        @staticmethod
        def formula(xp, g):
            return xp.arctan(g)

    try:
        f = Plain() + gaf.Tanh(0.5, 1.0)
        assert type(f).formula_derivative is type(f).formula_integral is type(f).symbolic is None
        check_derivative(f)
        check_integral(f)
        assert verify(f)
    finally:
        registry._REGISTRY.pop("plain")


@pytest.mark.slow
def test_verify_proves_it_of_the_sum():
    verdict = verify(TRUST)
    assert [clause.name for clause in verdict.clauses if not clause.holds] == ["differentiable"]
    assert verdict["concave"].detail.startswith("for all alpha1, beta1, alpha2, beta2 > 0: ")


@pytest.mark.slow
def test_a_sum_of_members_is_one():
    assert verify(gaf.Arctan(0.1, 20) + gaf.Arctan(0.3, 2))


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_it_trains_is_scheduled_and_comes_back(placement, tmp_path):
    def optimizer(f):
        w = torch.linspace(-1, 1, 5).requires_grad_()
        return w, gaf.SGD([w], lr=0.1, momentum=0.9, activation=f, placement=placement)

    w, opt = optimizer(TRUST)
    group = opt.param_groups[0]
    assert (group["gaf_function"], group["gaf_params"]) == ("tanh+log", TRUST.params)
    schedule = gaf.ParamScheduler(opt, alpha1=gaf.Ramp(1.0, 2.0, steps=2))
    for _ in range(2):
        w.grad = w.detach() ** 3
        opt.step()
        schedule.step()
    assert group["gaf_params"] == (2.7, 0.667, 0.15, 0.667)
    with pytest.raises(
        ValueError, match=r"tanh\+log has no parameter 'alpha'; it has alpha1, beta1"
    ):
        gaf.ParamScheduler(opt, alpha=gaf.Ramp(1.0, 2.0, steps=2))

    torch.save(opt.state_dict(), tmp_path / "state.pt")
    other_w, other = optimizer("arctan")
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert gaf.activation_of(other.param_groups[0]) == gaf.Tanh(2.7, 0.667) + gaf.Log(0.15, 0.667)
    with torch.no_grad():
        other_w.copy_(w)
    for weights, rule in ((w, opt), (other_w, other)):
        weights.grad = torch.ones(5)
        rule.step()
    assert torch.equal(w, other_w)


def test_a_name_of_an_optimizer_takes_it():
    w = torch.zeros(2, requires_grad=True)
    name = "sgd+tanh(1.35, 0.667)+log(0.15, 0.667)@momentum"
    opt = gaf.create_optimizer(name, [w], lr=0.1, momentum=0.9)
    assert gaf.activation_of(opt.param_groups[0]) == TRUST
