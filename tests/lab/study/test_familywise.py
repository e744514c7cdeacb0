"""The simulation of docs/protocol.py follows the protocol, and what it found is at most 5 % wrong tables."""

import json
import math

import numpy as np
import pytest
from docs.protocol import (
    COUNT,
    CURVES,
    FINAL_SEEDS,
    PAGE,
    RECORD,
    RULES,
    SHARED,
    STEPS,
    TUNING_SEEDS,
    drawn,
    holm,
    judged,
    simulate,
    tuned,
    written,
)

from gaf.lab.study import statistics
from gaf.lab.study.protocol import RateCurve, grid, growth, judge_pair
from gaf.lab.study.statistics import LEVEL

LARGEST = grid(0.1, len(STEPS))


def tuned_one_by_one(heights):
    """The two best rates of one rule, by RateCurve and growth."""
    score = dict(zip(LARGEST, heights.tolist(), strict=True))
    trials = {rate: [score[rate]] for rate in grid(0.1, COUNT)}
    while following := growth(RateCurve.of(trials, 0.1, True)):
        trials |= {rate: [score[rate]] for rate in following}
    curve = RateCurve.of(trials, 0.1, True)
    return LARGEST.index(curve.best), LARGEST.index(curve.second)


@pytest.mark.parametrize("kind", ["normal", "with ties"])
def test_the_arrays_tune_as_the_protocol_does(kind):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 7, len(STEPS)))
    heights = np.stack(list(CURVES.values())) + (noise if kind == "normal" else noise.round())
    best, second = tuned(heights)
    for at in np.ndindex(best.shape):
        assert (best[at], second[at]) == tuned_one_by_one(heights[at])


@pytest.mark.parametrize("noise", ["normal", "accuracy"])
@pytest.mark.parametrize("seeds", [3, 10])
def test_the_arrays_judge_as_the_protocol_does(noise, seeds):
    rng = np.random.default_rng(1)
    means = rng.choice([0.0, -1.0, -3.0], size=(60, RULES + 1, 2))
    final = drawn(rng, means, seeds, 0.5, noise)
    _, _, p = judged(final)
    corrected = holm(p)
    for table, scores in enumerate(final.tolist()):
        judgements = [judge_pair(rule, scores[0], True, TUNING_SEEDS) for rule in scores[1:]]
        expected = [judgement.p for judgement in judgements]
        assert p[table] == pytest.approx(expected, rel=1e-6)
        by_holm = list(statistics.holm(dict(enumerate(expected))).values())
        assert np.minimum(corrected[table], 1) == pytest.approx(by_holm, rel=1e-6)


@pytest.mark.parametrize("noise", ["normal", "accuracy"])
def test_simulated_runs_have_the_noise_and_the_correlation_they_should(noise):
    rng = np.random.default_rng(2)
    for shared in SHARED:
        scores = drawn(rng, np.zeros((20_000, 2)), 1, shared, noise)[..., 0]
        assert scores.std(axis=0) == pytest.approx(1, abs=0.02)
        assert np.corrcoef(scores.T)[0, 1] == pytest.approx(shared, abs=0.02)


def allowed(tables):
    """The level and two standard errors."""
    return LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / tables)


def test_recorded_errors_are_at_most_the_level():
    record = json.loads(RECORD.read_text("utf-8"))
    cells = {
        (c["curve"], c["seeds"], c["shared"], c["noise"]): c["error"] for c in record["errors"]
    }
    assert len(cells) == len(CURVES) * len(FINAL_SEEDS) * len(SHARED) * 2
    assert record["tables"] >= 4000
    assert max(cells.values()) <= allowed(record["tables"])


def test_the_page_has_the_recorded_numbers():
    text = PAGE.read_text("utf-8")
    assert text.count("<!-- results/protocol: ") == 2
    assert written(text) == text, "run: python docs/protocol.py"


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "accuracy"])
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("curve", CURVES)
def test_simulated_errors_are_at_most_the_level(curve, seeds, noise):
    tables = 1000
    share = simulate(np.random.default_rng(seeds), curve, seeds, 0.5, noise, tables=tables)
    assert share["error"] <= allowed(tables)


@pytest.mark.slow
def test_one_rate_alone_would_err_too_often():
    """The reason for two rates and for the variance of tuning: the check can fail."""
    share = simulate(np.random.default_rng(0), "peak, 1 a step", 10, 0.5, "normal", tables=1000)
    assert share["one_rate"] > 0.2
