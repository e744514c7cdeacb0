"""Simulated runs with a known effect: intervals cover it, nothing is found where nothing is, 2 sd are."""

import math

import numpy as np
import pytest

from gaf.lab.study.protocol import judge_pair
from gaf.lab.study.statistics import LEVEL, holm, paired

SIMULATIONS = 2000
EFFECT = 0.5
NOISE = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    # the tail of bad runs that accuracies have: a skewness of -1.75
    "skewed": lambda rng, shape: -rng.lognormal(0, 0.5, size=shape),
}


def runs(rng, n, settings, noise="normal", effects=None):
    """Scores [simulation, setting, seed]: what a seed is worth to all, and noise of each run's own.

    The last setting but for its effect is like all others; the first is the baseline.
    """
    seeds = 3 * rng.normal(size=(SIMULATIONS, 1, n))
    own = NOISE[noise](rng, (SIMULATIONS, settings, n))
    return seeds + own + np.asarray(effects or [0.0] * settings)[:, None]


def coverage(scores, reference, truth):
    found = [paired(a, b) for a, b in zip(scores.tolist(), reference.tolist(), strict=True)]
    return np.mean([each.low <= truth <= each.high for each in found])


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_interval_covers_the_truth(n, noise):
    rng = np.random.default_rng(n)
    scores = runs(rng, n, 2, noise, [0.0, EFFECT])
    assert 0.93 <= coverage(scores[:, 1], scores[:, 0], EFFECT) <= 0.97


@pytest.mark.parametrize("n", [3, 5, 10])
def test_one_skewed_side_is_still_covered(n):
    """A setting with a tail of bad runs beside a baseline without one."""
    rng = np.random.default_rng(n)
    base = rng.normal(size=(SIMULATIONS, n))
    with_tail = base + NOISE["skewed"](rng, (SIMULATIONS, n)) + rng.normal(size=(SIMULATIONS, n))
    assert 0.93 <= coverage(with_tail, base, -math.exp(0.125)) <= 0.97


@pytest.mark.parametrize("n", [3, 5, 10])
def test_accuracies_near_one_are_covered_though_their_skewness_does_not_cancel(n):
    """95 % and 91 % right on average, with the tails that shares have there."""
    rng = np.random.default_rng(n)
    one, other = rng.beta(40, 2, (SIMULATIONS, n)), rng.beta(20, 2, (SIMULATIONS, n))
    assert 0.93 <= coverage(one, other, 40 / 42 - 20 / 22) <= 0.97


@pytest.mark.parametrize("n", [3, 5, 10])
def test_differences_that_are_skewed_themselves_are_covered_less(n):
    """The known limit, as docs/compare.md tells it: no noise of the baseline's own, only a tail."""
    rng = np.random.default_rng(n)
    tail, none = NOISE["skewed"](rng, (SIMULATIONS, n)), np.zeros((SIMULATIONS, n))
    assert 0.90 <= coverage(tail, none, -math.exp(0.125)) <= 0.94
    exponential = rng.exponential(size=(SIMULATIONS, n))
    assert 0.86 <= coverage(exponential, none, 1.0) <= 0.92


def judged(scores, reference, higher_is_better=True):
    """Where rates are given: one rate on either side."""
    return judge_pair((scores, None), (reference, None), higher_is_better, 0)


def verdicts(scores, control=None):
    """Of all settings against the first and some against another one, as a table has them."""
    pairs = {(i, 0): judged(each, scores[0]) for i, each in enumerate(scores) if i}
    if control is not None:
        pairs |= {
            (i, control): judged(each, scores[control])
            for i, each in enumerate(scores)
            if i > control
        }
    corrected = holm({key: found.p for key, found in pairs.items()})
    return {key: found.verdict(corrected[key]) for key, found in pairs.items()}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize(
    "n", [pytest.param(3, marks=pytest.mark.slow), 5, pytest.param(10, marks=pytest.mark.slow)]
)
def test_where_nothing_differs_a_whole_table_says_so(n, noise):
    """Of tables with 7 settings and 11 comparisons, at least 94 % say "no difference" in every cell."""
    scores = runs(np.random.default_rng(10 + n), n, 8, noise)
    silent = [
        set(verdicts(each.tolist(), control=3).values()) == {"no difference"} for each in scores
    ]
    assert np.mean(silent) >= 0.94


@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_an_effect_of_two_standard_deviations_is_found_at_ten_seeds(noise):
    """Standard deviations of the differences, one real effect in a table of 11 comparisons."""
    spread = math.sqrt(2) * NOISE[noise](np.random.default_rng(0), 100_000).std()
    effects = [0.0] * 7 + [2 * spread]
    scores = runs(np.random.default_rng(1), 10, 8, noise, effects)
    found = [verdicts(each.tolist(), control=3)[7, 0] == "better" for each in scores]
    assert np.mean(found) >= 0.8  # observed 0.97 and 0.95


def test_paired_agrees_with_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7)).tolist()
    from scipy import stats  # takes a second

    theirs = stats.ttest_rel(a, b)
    mine, interval = paired(a, b), theirs.confidence_interval()
    assert (mine.p, mine.low, mine.high) == pytest.approx((theirs.pvalue, *interval), rel=1e-9)


def test_seeds_that_failed_on_either_side_are_left_out():
    found = paired([0.9, None, 0.8, 0.7], [0.8, 0.9, None, 0.5])
    assert found == paired([0.9, 0.7], [0.8, 0.5])
    assert found.n == 2
    with pytest.raises(ValueError, match="no seed on which both"):
        paired([None, 1.0], [1.0, None])


def test_one_pair_says_nothing():
    found = paired([0.9], [0.1])
    assert (found.p, found.low, found.high) == (1.0, -math.inf, math.inf)
    assert judged([0.9], [0.1]).verdict(found.p) == "no difference"


def test_equal_differences_are_judged_by_their_signs():
    """t would be infinite: three seeds that gain one test image each must not be "p < 0.001"."""
    found = paired([0.91, 0.92, 0.93], [0.90, 0.91, 0.92])
    assert found.p == 0.25
    assert found.low == found.high == pytest.approx(0.01)
    same = paired([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])
    assert (same.mean, same.p) == (0.0, 1.0)


@pytest.mark.parametrize("factor", [1e200, 2.0**1020, 1e-200])
def test_the_unit_of_a_score_does_not_matter(factor):
    """A perplexity near the end of the range has squares beyond it."""
    scores, reference = [1.0, 3.0, 4.0], [0.0, 0.5, 3.5]
    expected = paired(scores, reference)
    found = paired([factor * each for each in scores], [factor * each for each in reference])
    assert found.p == pytest.approx(expected.p, rel=1e-12)
    for name in ("mean", "std", "low", "high"):
        expected_here = factor * getattr(expected, name)
        assert getattr(found, name) == pytest.approx(expected_here, rel=1e-12)
    assert paired([1e200, 1.0], [0.0, 0.0]).p == pytest.approx(0.5)


def test_a_seed_on_which_both_diverge_is_a_difference_of_zero():
    both = paired([math.inf, 1.0, 2.0], [math.inf, 0.5, 0.1])
    assert both == paired([0.0, 1.0, 2.0], [0.0, 0.5, 0.1])


def test_infinite_scores_are_judged_by_their_signs():
    """A loss that diverged is inf, and worse than anything."""
    found = paired([math.inf] * 10, [0.3] * 10)
    assert found.p < 0.01
    assert judged([math.inf] * 10, [0.3] * 10, False).verdict(found.p) == "worse"
    both = paired([math.inf, 0.2], [math.inf, 0.2])
    assert (both.mean, both.p) == (0.0, 1.0)
    mixed = paired([math.inf, 0.1], [0.2, math.inf])
    assert math.isnan(mixed.mean)
    assert judged([math.inf, 0.1], [0.2, math.inf]).verdict(0.0) == "no difference"


def test_the_direction_depends_on_the_score():
    low, high = [1.0, 1.1, 1.2], [2.0, 2.1, 2.3]
    assert judged(low, high).verdict(0.01) == "worse"
    assert judged(low, high, higher_is_better=False).verdict(0.01) == "better"
    assert judged(low, high, higher_is_better=False).verdict(LEVEL) == "no difference"


def test_holm_as_published():
    p = {"a": 0.01, "b": 0.02, "c": 0.03, "d": 0.005}
    assert holm(p) == pytest.approx({"a": 0.03, "b": 0.04, "c": 0.04, "d": 0.02})
    assert holm({}) == {}
    assert max(holm({"a": 0.7, "b": 0.9}).values()) == 1.0
