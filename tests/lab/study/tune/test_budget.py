"""The cost of a search, and the lengths of its races."""

import pytest

from gaf.lab.engine.optimizers import rate_factor
from gaf.lab.study import recipes
from gaf.lab.study.tune.budget import (
    CANDIDATES,
    FINAL_SEEDS,
    FIRST_SEEDS,
    SECOND_SEEDS,
    plan,
    squeezed,
)
from gaf.lab.study.tune.probe import length


@pytest.mark.parametrize("total", [60, 100, 1140, 3900, 1_000_000])
@pytest.mark.parametrize("times", [8, 12, 20, 33, 1000, None])
def test_at_most_a_tenth_and_no_race_ends_where_a_good_setting_may_still_sit(total, times):
    budget = None if times is None else times * total
    found = plan(total, length(total), budget)
    assert found.cost <= 0.1 * found.candidates * len(FINAL_SEEDS) * total
    assert budget is None or found.cost <= budget
    assert min(found.first, found.second, found.final) >= 0.2 * total
    assert found.first < found.second
    assert found.candidates > found.kept >= 2


def test_the_more_may_be_spent_the_larger_the_search():
    costs = [plan(1000, 50, steps).cost for steps in (8_000, 12_000, 20_000, 40_000)]
    assert costs == sorted(costs)
    assert plan(1000, 50).candidates == CANDIDATES[0]
    assert plan(1000, 50).final == 1000


def test_a_budget_too_small_is_a_sentence():
    with pytest.raises(ValueError, match="too small for one race, which takes"):
        plan(1000, 50, 500)
    smallest = 7.9
    assert plan(1000, 50, round(smallest * 1000)).candidates == CANDIDATES[-1]


@pytest.mark.parametrize("steps", [None, 10, 10**6])
def test_a_training_too_short_is_a_sentence_whatever_the_budget(steps):
    with pytest.raises(ValueError, match=r"a training of so few steps \(1\) cannot be tuned"):
        plan(1, 1, steps)
    assert plan(4, 4).total == 4


def test_seeds_are_used_once():
    seeds = [*FIRST_SEEDS, *SECOND_SEEDS, *FINAL_SEEDS]
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) >= 1000


def test_a_squeezed_training_has_the_whole_schedule():
    config = recipes.get("imagenet-resnet50-sgdm")  # warm-up of 5 in 150 epochs
    short = squeezed(config, 3000, 15_000)
    assert (short.iterations, short.epochs) == (3000, None)
    for share in (0.0, 0.02, 0.1, 0.5, 0.9):
        long = rate_factor(config.schedule, round(share * 15_000), 15_000, 100)
        assert rate_factor(short.schedule, round(share * 3000), 3000, 100) == pytest.approx(
            long, abs=0.01
        )
    assert squeezed(config, 15_000, 15_000) is config
