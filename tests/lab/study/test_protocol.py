"""The protocol in numbers: grids, growth, the two best rates and the verdict, against plain reasoning."""

import dataclasses
import itertools
import math
import statistics

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gaf.common.errors import GafError
from gaf.lab.study.protocol import RateCurve, grid, growth, judge_pair, seeds_for
from gaf.lab.study.statistics import LEVEL, paired

RATES = grid(0.1)


def curve(*means, usual=0.1, higher=True, rates=None):
    """A curve of one seed with these means on the grid around the usual rate."""
    rates = rates or grid(usual, len(means))
    return RateCurve.of({r: [m] for r, m in zip(rates, means, strict=True)}, usual, higher)


@given(st.floats(1e-6, 1e3), st.integers(1, 12), st.floats(1.1, 20))
def test_a_grid_has_its_rates_a_factor_apart_around_the_usual_one(usual, count, ratio):
    rates = grid(usual, count, ratio)
    assert len(rates) == count
    assert rates[(count - 1) // 2] == pytest.approx(usual, rel=1e-11)
    for low, high in itertools.pairwise(rates):
        assert high / low == pytest.approx(ratio, rel=1e-10)


def test_equal_rates_of_two_rules_are_equal_numbers():
    assert set(grid(0.1)[1:]) == set(grid(0.3)[:-1])
    assert 0.3 in grid(0.1)
    assert len({*grid(0.001), *grid(0.027)}) == 10


@pytest.mark.parametrize(
    "given", [(0, 7, 3), (-1, 7, 3), (math.inf, 7, 3), (math.nan, 7, 3), (0.1, 0, 3), (0.1, 7, 1)]
)
def test_a_grid_that_is_none_is_refused(given):
    with pytest.raises(GafError, match="rate"):
        grid(*given)


def test_best_and_second():
    assert (curve(1, 3, 2).best, curve(1, 3, 2).second) == (0.1, 0.3)
    losses = curve(1, 3, 2, higher=False)
    assert (losses.best, losses.second) == grid(0.1, 3)[::2]
    assert (curve(5).best, curve(5).second) == (0.1, None)


def test_of_equal_rates_the_nearer_to_the_usual_one_is_better():
    rates = grid(0.1, 5)
    assert curve(1, 1, 1, 1, 1).ranked == (rates[2], rates[1], rates[3], rates[0], rates[4])
    assert curve(2, 1, 1, 2, 0).best == rates[3]
    # 0.1 + 0.2 and 0.3 are the same score
    rounding = RateCurve.of({0.1: [0.15, 0.15], 0.3: [0.1, 0.2]}, 0.1, True)
    assert rounding.best == 0.1


def test_the_mean_is_of_the_scores_there_are():
    means = RateCurve.of({0.3: [None, None], 0.1: [1.0, None], 0.9: [1.0, 2.0]}, 0.1, True).means
    assert means == {0.1: 1.0, 0.3: None, 0.9: 1.5}
    assert list(means) == [0.1, 0.3, 0.9]


def test_rates_that_diverged_or_failed_are_chosen_last_or_never():
    losses = curve(math.inf, 2.0, None, higher=False)
    assert losses.ranked == (0.1,)
    assert losses.second is None
    diverged = curve(math.inf, None, math.inf, higher=False)
    assert diverged.ranked == (grid(0.1, 3)[0], 0.3)
    failed = curve(None, None, None)
    assert (failed.best, failed.second) == (None, None)
    assert curve(0.0, 0.9, 0.5).second == 0.3  # an accuracy of 0 has diverged and is a number


@pytest.mark.parametrize(
    ("score", "higher"), [(math.nan, True), (math.nan, False), (math.inf, True), (-math.inf, False)]
)
def test_scores_that_cannot_be_ranked_are_refused(score, higher):
    with pytest.raises(GafError, match="cannot be ranked"):
        curve(1.0, score, higher=higher)


def test_curves_that_are_none_are_bugs():
    for rates, scores in [((), ()), ((0.1, 0.1), ((1,), (1,))), ((0.3, 0.1), ((1,), (1,)))]:
        with pytest.raises(ValueError, match="rising"):
            RateCurve(rates, scores, 0.1, True)
    with pytest.raises(ValueError, match="every seed"):
        RateCurve((0.1, 0.3), ((1.0,), (1.0, 2.0)), 0.1, True)
    with pytest.raises(ValueError, match="rows"):
        RateCurve((0.1, 0.3), ((1.0,),), 0.1, True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        curve(1.0).usual = 1.0  # type: ignore[misc]


def tuned(truth, count, most):
    """The trials of a rule whose score at a step of the grid is known, with all growth there is."""
    trials = {rate: [truth(rate)] for rate in grid(0.1, count)}
    while following := growth(RateCurve.of(trials, 0.1, True), count, most=most):
        assert not set(following) & set(trials)
        trials |= {rate: [truth(rate)] for rate in following}
    return trials


@given(st.integers(-9, 9), st.integers(6, 9), st.integers(0, 3))
def test_a_grid_grows_towards_a_peak_as_far_as_it_may(peak, count, most):
    """One peak: the grid ends where none of the three best rates is an edge, or at its limit."""
    step = lambda rate: round(math.log(rate / 0.1, 3))  # noqa: E731
    trials = tuned(lambda rate: -abs(step(rate) - peak - 0.1), count, most)
    first, last = -((count - 1) // 2), count // 2
    down = min(
        most, max(0, first - (peak - 2))
    )  # the three best are the peak and the steps beside it
    up = min(most, max(0, peak + 2 - last))
    assert sorted(map(step, trials)) == list(range(first - down, last + up + 1))
    assert sorted(trials) == list(grid(0.1, 25)[12 + first - down : 12 + last + up + 1])


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), min_size=1, max_size=8))
def test_growth_is_as_the_sentence_says(means):
    trials = curve(*means)
    following = growth(trials, count=len(means))
    bigger = grid(0.1, len(means) + 2)
    assert grid(0.1, len(means)) == bigger[1:-1]
    expected = []
    for edge, rate in ((trials.rates[0], bigger[0]), (trials.rates[-1], bigger[-1])):
        if edge not in trials.ranked:
            continue
        other = trials.rates[-1] if edge == trials.rates[0] else trials.rates[0]
        nearer = abs(math.log(trials.best / edge)) < abs(math.log(trials.best / other)) - 1e-6
        inner = [trials.means[inside] for inside in trials.rates[1:-1]]
        above = [mean for mean in means if mean is not None and mean > trials.means[edge]]
        if nearer and trials.means[edge] not in inner and len(above) < 3:
            expected.append(rate)
    assert following == tuple(expected)


def test_nothing_grows_where_nothing_is_to_be_gained():
    assert growth(curve(1, 1, 1), count=3) == ()
    assert growth(curve(1, 2, 2), count=3) == ()
    assert growth(curve(None, None, None), count=3) == ()
    assert growth(curve(math.inf, math.inf, math.inf, higher=False), count=3) == ()
    assert growth(curve(0.9), count=1) == ()
    assert growth(curve(1, 3, 2), count=3) == ()  # the best is in the middle
    assert growth(curve(3, 2, 1, higher=False), count=3) == (0.9,)
    assert growth(curve(1, 2, 3), count=3, most=0) == ()
    assert growth(curve(1, 2, None, 3), count=4) == (2.7,)  # failed within, not at the edge
    assert growth(curve(0, 1, 2, 4, 3), count=5) == (2.7,)  # the second best
    assert growth(curve(0, 1, 3, 4, 2), count=5) == (2.7,)  # the third
    assert growth(curve(0, 2, 3, 4, 1), count=5) == ()
    assert growth(curve(2, 0, 0, 4, 1), count=5) == (2.7,)
    assert growth(curve(2, 0, 3, 4, 1), count=5) == ()
    # the worst score of all, as all rates but one have it, is no third best
    assert growth(curve(0, 0, 0, 1, 0), count=5) == ()


SGD = ([0.90, 0.92, 0.91, 0.90], [0.89, 0.91, 0.92, 0.90])
GOOD = [0.95, 0.96, 0.97, 0.94]


def p_by_hand(scores, reference, tuning_seeds):
    """Of t where the variance of the mean is the larger of s²/n and s²/(2.5 m)."""
    from scipy import stats

    differences = [a - b for a, b in zip(scores, reference, strict=True)]
    n = len(differences)
    error = statistics.stdev(differences) * math.sqrt(max(1 / n, 1 / (2.5 * tuning_seeds)))
    return 2 * stats.t.sf(abs(statistics.mean(differences)) / error, n - 1)


def test_better_beats_both_rates_of_the_baseline():
    judgement = judge_pair((GOOD, [0.1, 0.2, 0.1, 0.1]), SGD, True, 2)
    assert judgement.direction == "better"
    assert judgement.p == pytest.approx(max(p_by_hand(GOOD, scores, 2) for scores in SGD))
    assert judgement.at_best == paired(GOOD, SGD[0])
    assert judgement.verdict(0.049) == "better"
    assert judgement.verdict(LEVEL) == "no difference"


def test_worse_is_beaten_at_both_rates():
    judgement = judge_pair(SGD, (GOOD, None), True, 2)
    assert judgement.direction == "worse"
    assert judgement.p == pytest.approx(max(p_by_hand(GOOD, scores, 2) for scores in SGD))
    assert judge_pair(SGD, (GOOD, None), False, 2).direction == "better"


def test_the_baselines_second_rate_can_save_it():
    judgement = judge_pair((SGD[0], SGD[1]), ([0.5, 0.6, 0.5, 0.4], GOOD), True, 2)
    assert paired(SGD[0], [0.5, 0.6, 0.5, 0.4]).p < 0.01
    assert (judgement.p, judgement.direction) == (1.0, "no difference")


def test_a_single_rate_stands_against_both():
    assert judge_pair((GOOD, None), SGD, True, 2) == judge_pair((GOOD, SGD[0]), SGD, True, 2)
    # what was not tuned cannot have been tuned badly
    alone = judge_pair((GOOD, None), (SGD[0], None), True, 2)
    assert alone.p == paired(GOOD, SGD[0]).p


def test_more_tuning_seeds_leave_less_to_luck():
    p = [judge_pair((GOOD, None), SGD, True, seeds).p for seeds in (1, 2, 5, 10**9)]
    assert p[0] > p[1] == p[2] == p[3]  # four final seeds: more than 2.5, not more than 5
    assert p[0] == pytest.approx(max(p_by_hand(GOOD, scores, 1) for scores in SGD))
    assert p[-1] == pytest.approx(max(paired(GOOD, scores).p for scores in SGD))
    # it is the loser's tuning that counts
    assert judge_pair((SGD[0], None), (GOOD, SGD[1]), True, 1).p == paired(SGD[0], GOOD).p


@given(st.lists(st.lists(st.integers(0, 6), min_size=4, max_size=4), min_size=4, max_size=4))
def test_a_verdict_turns_round_with_the_score_and_with_the_sides(rows):
    rule, base = (rows[0], rows[1]), (rows[2], rows[3])
    judgement = judge_pair(rule, base, True, 2)
    opposite = {"better": "worse", "worse": "better", "no difference": "no difference"}
    swapped = judge_pair(base, rule, True, 2)
    assert (swapped.p, swapped.direction) == (judgement.p, opposite[judgement.direction])
    losses = [[-score for score in row] for row in rows]
    turned = judge_pair((losses[0], losses[1]), (losses[2], losses[3]), False, 2)
    assert (turned.p, turned.direction) == (judgement.p, judgement.direction)


def test_seeds_that_failed():
    gaps = judge_pair(([None, *GOOD[1:]], None), (SGD[0], None), True, 2)
    assert gaps.at_best == paired(GOOD[1:], SGD[0][1:])
    nothing = judge_pair((GOOD, None), (SGD[0], [None] * 4), True, 2)
    assert (nothing.p, nothing.direction) == (1.0, "no difference")
    with pytest.raises(GafError, match="no seed on which both"):
        judge_pair(([None] * 4, None), SGD, True, 2)


def test_losses_that_diverged():
    diverged = [math.inf] * 10
    judgement = judge_pair((diverged, None), ([0.3] * 10, [0.4] * 10), False, 2)
    assert judgement.direction == "worse"
    assert judgement.p < 0.01
    # better on nine seeds and diverged on one: the mean says worse, the signs better
    mixed = judge_pair(([math.inf, *[0.1] * 9], None), ([0.3] * 10, None), False, 2)
    assert (mixed.p, mixed.direction) == (1.0, "no difference")
    both = judge_pair((diverged, None), (diverged, diverged), False, 2)
    assert (both.p, both.direction) == (1.0, "no difference")


def test_seeds_for_agrees_with_simulated_power():
    import numpy as np
    from scipy import stats

    rng = np.random.default_rng(0)
    for effect, level in [(1.0, 0.05), (1.0, 0.05 / 7), (2.0, 0.05), (0.4, 0.05)]:
        n = seeds_for(3 * effect, 3.0, level)

        def power(seeds, effect=effect, level=level):
            draws = rng.normal(effect, 1, (20_000, seeds))
            return np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < level)

        assert power(n) >= 0.79  # observed 0.80 to 0.87; standard error 0.003
        assert power(n - 1) <= 0.81


def test_seeds_for_with_the_luck_of_tuning():
    import numpy as np
    from scipy import stats

    rng = np.random.default_rng(0)
    n = seeds_for(2.0, 1.0, 0.01, tuning_seeds=2)
    draws = rng.normal(2, 1, (20_000, n))
    error = draws.std(axis=1, ddof=1) * math.sqrt(max(1 / n, 1 / 5))
    p = 2 * stats.t.sf(abs(draws.mean(axis=1)) / error, n - 1)
    assert 0.79 <= np.mean(p < 0.01) <= 0.9  # observed 0.83
    assert seeds_for(2.0, 1.0, 0.01) == seeds_for(2.0, 1.0, 0.01, tuning_seeds=5) < n
    with pytest.raises(GafError, match="more tuning seeds"):
        seeds_for(0.5, 1.0, 0.01, tuning_seeds=2)


def test_seeds_for_at_its_ends():
    assert seeds_for(1e9, 1.0) == 2
    assert seeds_for(1.0, 0.0) == 6  # the sign test: 2 / 64 < 0.05
    assert seeds_for(1.0, 1e-300) == 2
    with pytest.raises(GafError, match="too small"):
        seeds_for(1e-4, 1.0)
    for wrong in [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, math.inf), (1.0, -1.0)]:
        with pytest.raises(GafError, match="name a difference"):
            seeds_for(*wrong)
    with pytest.raises(GafError, match="between 0 and 1"):
        seeds_for(1.0, 1.0, level=0)
