"""The shape of a loss curve: right in 95 of 100 cases under noise, and a quadratic is neither."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from gaf.lab.study.tune.shape import judge
from gaf.lab.theory.problems import TypeOne, TypeTwo

W = np.linspace(-1, 1, 51)


def noisy(power, rng, noise=0.01):
    """a |w - w0|^p + c with noise of 1 % of the curve's height, at any scale and place."""
    scale, w0 = 10 ** rng.uniform(-4, 4), rng.uniform(-0.2, 0.2)
    clean = scale * np.abs(W - w0) ** power
    wide = noise * (clean.max() - clean.min())
    return clean + scale * rng.uniform(0, 5) + wide * rng.standard_normal(len(W))


def test_the_type_is_right_in_at_least_95_of_100_cases():
    rng = np.random.default_rng(0)
    for low, high, name in ((1.3, 1.8, "Type 2"), (2.3, 4.0, "Type 1")):
        found = [judge(W, noisy(rng.uniform(low, high), rng)).type for _ in range(100)]
        assert found.count(name) >= 95, (name, found.count(name))


def test_a_quadratic_is_neither():
    rng = np.random.default_rng(1)
    found = [judge(W, noisy(2.0, rng)).type for _ in range(100)]
    assert found.count("neither") >= 99


def test_the_papers_own_curves():
    for loss, name in ((TypeOne((1.0,)), "Type 1"), (TypeTwo((1.0,)), "Type 2")):
        values = loss(torch.as_tensor(W)[:, None]).tolist()
        assert judge(W, values).type == name


@pytest.mark.parametrize("power", [1.3, 1.8, 2.0, 2.3, 4.0])
def test_the_fit_is_exact_without_noise(power):
    found = judge(W * 3, 7 + 0.5 * np.abs(W * 3 - 0.3) ** power)
    assert found.power == pytest.approx(power, abs=1e-3)
    assert found.optimum == pytest.approx(0.3, abs=1e-3)
    assert found.floor == pytest.approx(7, abs=1e-3)
    assert found.scale == pytest.approx(0.5, rel=1e-2)
    assert found.residual < 1e-4
    assert found.loss(1.0) == pytest.approx(7 + 0.5 * 0.7**power, abs=1e-3)


@pytest.mark.parametrize("power", [1.5, 3.0])
def test_the_large_gradient_region_is_where_the_slope_exceeds_the_quadratics(power):
    found = judge(W, np.abs(W) ** power)
    w = np.linspace(0.01, 1, 1000)
    q = (w ** (power + 2)).sum() / (w**4).sum()  # least squares of q w² to w^p
    steeper = w[power * w ** (power - 1) > 2 * q * w]
    assert found.large[0] == pytest.approx(steeper.min() if power > 2 else 0, abs=0.01)
    assert found.large[1] == pytest.approx(steeper.max(), abs=0.01)
    assert found.steepest == pytest.approx(power, rel=0.01)


def test_confidence_falls_with_noise():
    rng = np.random.default_rng(2)
    calm, wild = (judge(W, noisy(2.6, rng, noise)) for noise in (0.01, 0.2))
    assert calm.confidence > 0.99
    assert calm.error < wild.error
    assert wild.type == "neither"


def test_the_confidence_of_neither_is_that_of_a_power_near_2():
    assert judge(W, W**2).confidence > 0.999
    near = judge(W, np.abs(W) ** 2.09)
    assert (near.type, round(near.confidence, 3)) == ("neither", 1.0)
    rng = np.random.default_rng(3)
    wild = judge(W, noisy(2.0, rng, noise=0.04))
    z = [(edge - abs(wild.power - 2)) / wild.error for edge in (0.1, -0.1)]
    assert wild.confidence == pytest.approx(norm.cdf(z[0]) - norm.cdf(z[1]))
    assert wild.confidence < 0.9


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        (W, "at an end, not in the middle"),
        (-(W**2), "no optimum to judge"),
        (W**3, "at an end, not in the middle"),
        (np.abs(W) ** 20, "p from 0.3 to 12"),
        (1 - np.exp(-20 * W**2), "p from 0.3 to 12"),
    ],
    ids=("a line", "a maximum", "a cubic", "too flat", "too sharp"),
)
def test_a_curve_whose_fit_ends_at_a_bound_is_not_judged(losses, says):
    with pytest.raises(ValueError, match=says):
        judge(W, losses)


@pytest.mark.parametrize(
    "losses",
    [(W > 0) * 1.0, np.sin(3 * W), 1 / (1 + np.exp(-8 * W))],
    ids=("a step", "a sine", "a sigmoid"),
)
def test_a_curve_that_no_power_describes_has_no_type(losses):
    found = judge(W, losses)
    assert found.type == "neither"
    assert "the nearest one misses it by" in found.misfit
    assert judge(W, np.abs(W) ** 3).misfit == ""


def test_points_that_are_no_numbers_are_left_out():
    values = np.abs(W) ** 3
    values[:3] = [np.nan, np.inf, np.inf]
    assert judge(W, values).type == "Type 1"


@pytest.mark.parametrize(
    ("values", "says"), [([np.nan] * 51, "0 finite points"), ([2.0] * 51, "flat")]
)
def test_what_cannot_be_judged_is_a_sentence(values, says):
    with pytest.raises(ValueError, match=says):
        judge(W, values)
