"""Our optimizers against the float64 scalar oracle, over random hyperparameters."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gaf
from gaf.optim import rules
from tests.optim import oracle
from tests.optim.rounding import Rounded

STEPS = 4

number = functools.partial(st.floats, allow_nan=False, allow_infinity=False)
gradients = st.lists(number(-1e3, 1e3), min_size=STEPS, max_size=STEPS)
learning_rates = st.lists(number(1e-4, 1.0), min_size=STEPS, max_size=STEPS)
factors = st.tuples(number(1e-3, 1e3), number(1e-3, 1e3))


@st.composite
def sgd_cases(draw):
    momentum = draw(st.sampled_from([0.0, 0.5, 0.9]))
    nesterov = momentum > 0 and draw(st.booleans())
    alpha, beta = draw(factors)
    return {
        "function": draw(st.sampled_from(sorted(oracle.FUNCTIONS))),
        "alpha": alpha,
        "beta": beta,
        "placement": draw(st.sampled_from(gaf.PLACEMENTS)),
        "momentum": momentum,
        "dampening": 0.0 if nesterov else draw(st.sampled_from([0.0, 0.3])),
        "weight_decay": draw(st.sampled_from([0.0, 0.1])),
        "nesterov": nesterov,
        "maximize": draw(st.booleans()),
        "decoupled": draw(st.booleans()),
        "w": draw(number(-10, 10)),
    }


def check_sgd(case: dict, grads: list[float], lrs: list[float], foreach: bool) -> None:
    """Weight and velocity after each step, under a changing learning rate."""
    judge = oracle.Sgd(**case)
    w = torch.tensor([case["w"]], dtype=torch.float64)
    f = gaf.parse(f"{case['function']}({case['alpha']!r}, {case['beta']!r})")
    names = ("momentum", "dampening", "weight_decay", "nesterov", "maximize", "placement")
    hyper = {name: case[name] for name in names}
    hyper["decoupled_weight_decay"] = case.get("decoupled", False)
    opt = gaf.SGD([w], lr=1.0, activation=f, foreach=foreach, **hyper)
    for grad, lr in zip(grads, lrs, strict=True):
        w.grad = torch.tensor([grad], dtype=torch.float64)
        opt.param_groups[0]["lr"] = lr
        opt.step()
        judge.step(grad, lr)
        assert_near(w, judge.w)
        if case["momentum"]:
            key = "gaf_velocity" if case["placement"] == "update" else "momentum_buffer"
            assert_near(opt.state[w][key], judge.v)
            assert set(opt.state[w]) == {key}


def assert_near(x: torch.Tensor, judged: Rounded) -> None:
    """Within what rounding can do."""
    assert abs(x.item() - float(judged)) <= judged.error, (x.item(), judged, judged.error)


def plain_case(**changes) -> dict:
    return {
        "function": "arctan",
        "alpha": 0.1,
        "beta": 20.0,
        "placement": "momentum",
        "momentum": 0.9,
        "dampening": 0.0,
        "weight_decay": 0.1,
        "nesterov": False,
        "maximize": False,
        "w": 1.5,
    } | changes


# The gradient is below the normal numbers, and alpha * beta, momentum and decay multiply its rounding.
SUBNORMAL = plain_case(alpha=1.0, beta=38.0, placement="update", momentum=0.5, nesterov=True, w=0.0)
SUBNORMAL_GRADS = [1.1125369292536007e-308, 0.0, 0.0, 0.0]


@settings(max_examples=300)
@given(sgd_cases(), gradients, learning_rates, st.booleans())
@example(SUBNORMAL, SUBNORMAL_GRADS, [1e-4, 1.0, 1.0, 1.0], False)
@example(SUBNORMAL, SUBNORMAL_GRADS, [1e-4, 1.0, 1.0, 1.0], True)
def test_sgd(case, grads, lrs, foreach):
    check_sgd(case, grads, lrs, foreach)


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
@pytest.mark.parametrize("wrong", list(gaf.PLACEMENTS))
def test_a_wrong_placement_is_caught(monkeypatch, placement, wrong):
    """The rule of another placement, put in the place of the right one, fails the check above."""
    right = rules.sgd
    monkeypatch.setattr(rules, "sgd", lambda *args, **kw: right(*args, **kw | {"placement": wrong}))
    case, grads, lrs = (
        plain_case(placement=placement),
        [0.3, -0.2, 1.0, 0.05],
        [0.1, 0.2, 0.1, 0.05],
    )
    if wrong == placement:
        check_sgd(case, grads, lrs, foreach=False)
    else:
        with pytest.raises(AssertionError):
            check_sgd(case, grads, lrs, foreach=False)


def decay_before_f(w, g, v, f, *, weight_decay, **kw):
    return rules_sgd(w, g.add(w, alpha=weight_decay), v, f, weight_decay=0.0, **kw)


def velocity_after_f(w, g, v, f, **kw):
    (v,) = rules_sgd(w, g, v, f, **kw)
    return (None if v is None else v.copy_(f(v)),)


def dampened_first_step(w, g, v, f, **kw):
    return rules_sgd(w, g, torch.zeros_like(w) if v is None else v, f, **kw)


def no_decay(w, g, v, f, **kw):
    return rules_sgd(w, g, v, f, **kw | {"weight_decay": 0.0})


def no_look_ahead(w, g, v, f, **kw):
    return rules_sgd(w, g, v, f, **kw | {"nesterov": False})


def weight_off_by_1000_ulps(w, g, v, f, **kw):
    v = rules_sgd(w, g, v, f, **kw)
    w.add_(1000 * math.ulp(w.item()))
    return v


def velocity_off_by_1000_ulps(w, g, v, f, **kw):
    (v,) = rules_sgd(w, g, v, f, **kw)
    return (v.add_(1000 * math.ulp(v.item())),)


rules_sgd = rules.sgd
NESTEROV = plain_case(placement="momentum", nesterov=True)


@pytest.mark.parametrize(
    ("wrong", "case"),
    [
        (decay_before_f, plain_case(placement="gradient")),
        (velocity_after_f, plain_case(placement="momentum")),
        (velocity_after_f, plain_case(placement="update")),
        (dampened_first_step, plain_case(placement="gradient", dampening=0.3)),
        *(
            (wrong, case)
            for wrong in (
                no_decay,
                no_look_ahead,
                weight_off_by_1000_ulps,
                velocity_off_by_1000_ulps,
            )
            for case in (NESTEROV, SUBNORMAL)
        ),
    ],
)
def test_a_wrong_rule_is_caught(monkeypatch, wrong, case):
    grads, lrs = [0.3, -0.2, 1.0, 0.05], [0.1, 0.2, 0.1, 0.05]
    if case is SUBNORMAL:
        grads = SUBNORMAL_GRADS
    check_sgd(case, grads, lrs, foreach=False)
    monkeypatch.setattr(rules, "sgd", wrong)
    with pytest.raises(AssertionError):
        check_sgd(case, grads, lrs, foreach=False)


@st.composite
def adam_cases(draw):
    alpha, beta = draw(factors)
    function = draw(st.sampled_from(sorted(oracle.FUNCTIONS)))
    placement = draw(st.sampled_from(gaf.PLACEMENTS))
    exact = placement != "gradient" and function != "log"  # which has no bound
    return {
        "function": function,
        "alpha": alpha,
        "beta": beta,
        "placement": placement,
        "betas": draw(st.sampled_from([(0.9, 0.999), (0.5, 0.9)])),
        "eps": draw(st.sampled_from([1e-8, 1e-3, *([0.0] if exact else [])])),
        "weight_decay": draw(st.sampled_from([0.0, 0.1])),
        "decoupled": draw(st.booleans()),
        "amsgrad": draw(st.booleans()),
        "eps_hat": draw(st.booleans()),
        "maximize": draw(st.booleans()),
        "w": draw(number(-10, 10)),
    }


ADAM = {
    "function": "log",
    "alpha": 0.1,
    "beta": 20.0,
    "placement": "gradient",
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "weight_decay": 0.1,
    "decoupled": False,
    "amsgrad": True,
    "maximize": True,
    "eps_hat": False,
    "w": 1.0,
}


ADAM_ARGUMENTS = ("betas", "eps", "weight_decay", "amsgrad", "maximize", "placement", "eps_hat")


def check_adam(
    case: dict, grads: list[float], lrs: list[float], foreach: bool, named_adamw: bool
) -> None:
    """Weight and state after each step, under a changing learning rate."""
    judge = oracle.Adam(**case)
    w = torch.tensor([case["w"]], dtype=torch.float64)
    f = gaf.parse(f"{case['function']}({case['alpha']!r}, {case['beta']!r})")
    hyper = {name: case[name] for name in ADAM_ARGUMENTS}
    if case["decoupled"] and named_adamw:
        opt = gaf.AdamW([w], lr=1.0, activation=f, foreach=foreach, **hyper)
    else:
        hyper["decoupled_weight_decay"] = case["decoupled"]
        opt = gaf.Adam([w], lr=1.0, activation=f, foreach=foreach, **hyper)
    for grad, lr in zip(grads, lrs, strict=True):
        w.grad = torch.tensor([grad], dtype=torch.float64)
        opt.param_groups[0]["lr"] = lr
        opt.step()
        judge.step(grad, lr)
        assert_near(w, judge.w)
        state = opt.state[w]
        assert_near(state["exp_avg"], judge.m)
        assert_near(state["exp_avg_sq"], judge.v)
        if case["amsgrad"]:
            assert_near(state["max_exp_avg_sq"], judge.v_max)


ADAM_GRADS, ADAM_LRS = [1.0, 0.0, -1.0, 1e-3], [0.1, 0.2, 0.1, 0.3]


@settings(max_examples=200)
@given(adam_cases(), gradients, learning_rates, st.booleans(), st.booleans())
@example(ADAM, ADAM_GRADS, ADAM_LRS, True, True)
@example(ADAM | {"w": 0.0}, SUBNORMAL_GRADS, ADAM_LRS, False, False)
def test_adam(case, grads, lrs, foreach, named_adamw):
    check_adam(case, grads, lrs, foreach, named_adamw)


rules_adam = rules.adam


def adam_without_decay(*args, **kw):
    return rules_adam(*args, **kw | {"weight_decay": 0.0})


def adam_without_amsgrad(w, g, m, v, top, f, **kw):
    return *rules_adam(w, g, m, v, None, f, **kw)[:2], top


def adam_off_by_1000_ulps(w, *args, **kw):
    new = rules_adam(w, *args, **kw)
    w.add_(1000 * math.ulp(w.item()))
    return new


def adams_mean_off_by_1000_ulps(*args, **kw):
    m, v, top = rules_adam(*args, **kw)
    return m.add_(1000 * math.ulp(m.item())), v, top


def adams_squares_off_by_1000_ulps(*args, **kw):
    m, v, top = rules_adam(*args, **kw)
    return m, v.add_(1000 * math.ulp(v.item())), top


@pytest.mark.parametrize(
    "wrong",
    [
        adam_without_decay,
        adam_without_amsgrad,
        adam_off_by_1000_ulps,
        adams_mean_off_by_1000_ulps,
        adams_squares_off_by_1000_ulps,
    ],
)
def test_a_wrong_adam_is_caught(monkeypatch, wrong):
    check_adam(ADAM, ADAM_GRADS, ADAM_LRS, False, False)
    monkeypatch.setattr(rules, "adam", wrong)
    with pytest.raises(AssertionError):
        check_adam(ADAM, ADAM_GRADS, ADAM_LRS, False, False)
