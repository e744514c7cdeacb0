"""Windows, their intervals and the score against the budget, against brute force."""

import itertools
import math
import statistics

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from gaf.common.errors import GafError
from gaf.lab.study.protocol import RateCurve, grid
from gaf.lab.study.rates import (
    RateWindow,
    best_of,
    refinements,
    shift_and_widening,
    threshold_of,
    window,
    window_intervals,
)

MEANS = st.one_of(st.none(), st.just(-math.inf), st.integers(0, 100).map(float))


def curve(*means, higher=True):
    sign = 1 if higher else -1
    scores = [[None if mean is None else sign * mean] for mean in means]
    return RateCurve.of(dict(zip(grid(0.1, len(means)), scores, strict=True)), 0.1, higher)


def walked(curve, threshold, points=400):
    """The window by walking from the best rate in small steps on the logarithmic axis."""
    heights = [value if math.isfinite(value) else None for value in curve.heights.values()]
    level = threshold if curve.higher_is_better else -threshold
    start = curve.rates.index(curve.best)
    ends = []
    for direction in (-1, 1):
        at, end = start, math.log(curve.rates[start])
        while 0 <= at + direction < len(heights) and heights[at + direction] is not None:
            left, right = (math.log(curve.rates[i]) for i in (at, at + direction))
            steps = [
                left + share * (right - left)
                for share in np.linspace(0, 1, points + 1)
                if heights[at] + share * (heights[at + direction] - heights[at]) >= level - 1e-9
            ]
            end = steps[-1] if heights[at + direction] < level else right
            if heights[at + direction] < level:
                break
            at += direction
        ends.append(end)
        open_end = not 0 <= at + direction < len(heights)
        ends.append(open_end)
    return ends


@given(st.lists(MEANS, min_size=1, max_size=9), st.integers(0, 100), st.booleans())
@example([5.0, 5.0, 5.0], 5, True)  # all at the threshold
@example([7.0, 5.0, 7.0], 5, False)  # touches it, and goes on
@example([5.0, -math.inf, None], 2, False)
def test_a_window_is_what_walking_from_the_best_rate_finds(means, level, higher):
    trials = curve(*means, higher=higher)
    threshold = float(level if higher else -level)
    top = max(trials.heights.values())
    seen = window(trials, threshold)
    if top < level:
        assert seen is None
        assert refinements(trials, threshold) == ()
        return
    low, open_low, high, open_high = walked(trials, threshold)
    step = math.log(3) / 400
    assert math.log(seen.low) == pytest.approx(low, abs=step + 1e-9)
    assert math.log(seen.high) == pytest.approx(high, abs=step + 1e-9)
    assert (seen.open_low, seen.open_high) == (open_low, open_high)
    assert seen.low <= trials.best <= seen.high
    # a closed end lies between two rates of the grid, and the middle of them is tried
    rates = np.array(trials.rates)
    middles = []
    for end, closed, outer in ((seen.low, not open_low, -1), (seen.high, not open_high, 1)):
        if closed:
            inside = rates[(rates >= seen.low * (1 - 1e-9)) & (rates <= seen.high * (1 + 1e-9))]
            last = inside[0] if outer < 0 else inside[-1]
            middles.append(float(f"{last * 3 ** (outer / 2):.12g}"))
            assert min(last, last * 3.0**outer) <= end * (1 + 1e-9)
    assert refinements(trials, threshold) == pytest.approx(tuple(middles), rel=1e-10)


def test_the_ends_by_hand():
    rates = grid(0.1, 5)
    seen = window(curve(0.0, 0.8, 0.9, 0.8, 0.0), 0.4)
    assert seen.low == pytest.approx(math.sqrt(rates[0] * rates[1]))
    assert seen.high == pytest.approx(math.sqrt(rates[3] * rates[4]))
    assert seen.factor == pytest.approx(27)
    assert seen.centre == pytest.approx(0.1)
    assert (seen.open_low, seen.open_high) == (False, False)
    # a second hill beyond a valley does not count
    assert window(curve(0.0, 0.9, 0.0, 0.8, 0.8), 0.8).factor == pytest.approx(3 ** (2 / 9))
    assert window(curve(0.9), 0.8) == RateWindow(0.1, 0.1, True, True)
    assert window(curve(None, None), 0.8) is None


def test_beside_a_rate_that_diverged_the_last_good_rate_is_the_end():
    losses = curve(-2.0, -1.0, -math.inf, higher=False)
    seen = window(losses, 1.5)
    assert seen.high == 0.1
    assert not seen.open_high
    assert refinements(losses, 1.5)[1] == pytest.approx(0.1 * math.sqrt(3))
    assert window(curve(0.9, 0.9, None), 0.8).high == 0.1


def test_a_gap_is_refined_once():
    trials = {0.1: [0.9], 0.3: [0.1]}
    (middle,) = refinements(RateCurve.of(trials, 0.1, True), 0.8)
    assert middle == pytest.approx(0.1 * math.sqrt(3))
    for score in (0.9, 0.2):
        assert refinements(RateCurve.of({**trials, middle: [score]}, 0.1, True), 0.8) == ()
    assert refinements(RateCurve.of(trials, 0.1, True), 0.8, ratio=10) == ()


def test_the_threshold_is_the_baselines_best_and_a_little_less():
    assert threshold_of(curve(0.5, 0.97, 0.9), 0.01) == 0.96
    assert threshold_of(curve(-2.0, -0.5, higher=False), 0.1) == 0.6
    assert threshold_of(curve(None, None), 0.01) is None
    assert threshold_of(curve(-math.inf, None, higher=False), 0.01) is None


def test_what_open_ends_make_of_shift_and_widening():
    def change(rule_open, base_open):
        return shift_and_widening(
            RateWindow(0.2, 0.8, *rule_open), RateWindow(0.1, 0.2, *base_open)
        )

    closed = (False, False)
    exact = change(closed, closed)
    assert exact.shifted == pytest.approx(2 * math.sqrt(2))
    assert exact.widened == pytest.approx(2)
    assert (exact.shifted_is, exact.widened_is) == ("exact", "exact")
    bounds = {
        ((True, False), closed): ("at most", "at least"),
        ((False, True), closed): ("at least", "at least"),
        ((True, True), closed): ("unknown", "at least"),
        (closed, (True, False)): ("at least", "at most"),
        (closed, (False, True)): ("at most", "at most"),
        ((False, True), (True, False)): ("at least", "unknown"),
    }
    for ends, bound in bounds.items():
        assert (change(*ends).shifted_is, change(*ends).widened_is) == bound


def seeded(rng, truth, seeds, noise, usual=0.1):
    scores = truth[:, None] + noise * rng.normal(size=(len(truth), seeds))
    return RateCurve.of(dict(zip(grid(usual), scores.tolist(), strict=True)), usual, True)


def test_the_bootstrap_is_that_of_curves_made_one_by_one():
    """The same draws through RateCurve, threshold_of, window and shift_and_widening, with gaps and inf."""
    rng = np.random.default_rng(1)
    base = seeded(rng, np.array([0.0, 5, 9, 10, 7, 2, 0]), 5, 1.0)
    rule = seeded(rng, np.array([0.0, 2, 6, 9, 10, 8, 1]), 5, 2.0)
    scores = dict(zip(rule.rates, map(list, rule.scores), strict=True))
    scores[rule.rates[0]][2] = -math.inf
    scores[rule.rates[5]][:3] = [None] * 3
    rule = RateCurve.of(scores, 0.1, True)
    draws = 200
    picks = np.random.default_rng(7).integers(5, size=(draws, 5))

    def drawn(curve, pick):
        chosen = [[row[i] for i in pick] for row in curve.scores]
        return RateCurve.of(dict(zip(curve.rates, chosen, strict=True)), 0.1, True)

    factors, shifts, widenings = [], [], []
    for pick in picks:
        one, other = drawn(rule, pick), drawn(base, pick)
        level = threshold_of(other, 1.0)
        own = window(one, level) or RateWindow(one.best, one.best, False, False)
        change = shift_and_widening(own, window(other, level))
        factors.append(own.factor)
        shifts.append(change.shifted)
        widenings.append(change.widened)
    intervals = window_intervals(rule, base, 1.0, draws=draws, seed=7)
    for values, interval in zip(
        (factors, shifts, widenings),
        (intervals.factor, intervals.shifted, intervals.widened),
        strict=True,
    ):
        expected = np.exp(np.quantile(np.log(values), [0.025, 0.975]))
        assert interval == pytest.approx(tuple(expected), rel=1e-9)


def test_intervals_need_five_seeds_of_both():
    rng = np.random.default_rng(0)
    truth = np.array([0.0, 5, 9, 10, 9, 5, 0])
    four, five, six = (seeded(rng, truth, n, 0.1) for n in (4, 5, 6))
    assert window_intervals(four, four, 1.0) is None
    assert window_intervals(five, five, 1.0) == window_intervals(five, five, 1.0)
    same = window_intervals(five, five, 1.0)
    assert same.widened == same.shifted == (1.0, 1.0)
    assert same.factor[0] < window(five, threshold_of(five, 1.0)).factor < same.factor[1]
    with pytest.raises(ValueError, match="same tuning seeds"):
        window_intervals(five, six, 1.0)


def test_intervals_where_nothing_ran():
    failed = RateCurve.of({0.1: [None] * 5, 0.3: [None] * 5}, 0.1, True)
    good = RateCurve.of({0.1: [0.9] * 5, 0.3: [0.1] * 5}, 0.1, True)
    assert window_intervals(failed, good, 0.01).factor == (1.0, 1.0)
    assert window_intervals(failed, failed, 0.01).factor == (1.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "observed"), [(5, 0.855), (10, 0.905)])
def test_intervals_cover_the_true_width_less_than_they_say(seeds, observed):
    """The known limit of percentiles of few seeds, which the docstring states."""
    rng = np.random.default_rng(3)
    truth = np.array([0.0, 5, 9, 10, 8, 5, 0])
    exact = curve(*truth)
    width = window(exact, threshold_of(exact, 2.0)).factor
    covered = []
    for _ in range(400):
        trials = seeded(rng, truth, seeds, 0.5)
        low, high = window_intervals(trials, trials, 2.0, draws=400).factor
        covered.append(low <= width <= high)
    assert statistics.mean(covered) == pytest.approx(observed, abs=0.04)  # standard error 0.017


@given(st.lists(MEANS, min_size=1, max_size=7), st.booleans())
def test_best_of_is_the_mean_over_all_subsets(means, higher):
    scores = [None if mean is None else (mean if higher else -mean) for mean in means]
    finished = [score for score in scores if score is not None]
    if not finished:
        with pytest.raises(GafError, match="no rate has a score"):
            best_of(scores, higher)
        return
    best, worst = (max, min) if higher else (min, max)
    ordered = [worst(finished) if score is None else score for score in scores]
    expected = [
        sum(values) / len(values)
        for k in range(1, len(ordered) + 1)
        for values in [[best(subset) for subset in itertools.combinations(ordered, k)]]
    ]
    assert best_of(scores, higher) == pytest.approx(expected, rel=1e-9)


def test_best_of_refuses_what_is_no_number_and_is_constant_for_one_rate():
    with pytest.raises(GafError, match="not a number"):
        best_of([0.9, math.nan], True)
    assert best_of([0.9], True) == (0.9,)
    assert best_of([2.0, math.inf, math.inf], False) == (math.inf, math.inf, 2.0)
