"""How often a comparison errs, simulated: `python docs/protocol.py` rewrites its tables in docs/compare.md.

The numbers come from results/protocol.json; `python docs/protocol.py --measure` simulates them anew, in
minutes. A simulated table has a baseline and seven rules, all with one curve over the learning rate and noise
of one size. Each is tuned and judged by the protocol (gaf.lab.study.protocol; here on arrays, which the tests
compare with it). A table in which any rule is called better or worse is an error.
"""

from __future__ import annotations

import datetime
import itertools
import json
import platform
import re
import sys
from pathlib import Path

import numpy as np
import scipy
from scipy import special

from gaf.common.files import write_whole
from gaf.lab.study.protocol import COUNT, FINAL_SEEDS_PER_TUNING_SEED, GROWTH, NEAR_THE_BEST
from gaf.lab.study.statistics import LEVEL

ROOT = Path(__file__).parent.parent
PAGE, RECORD = ROOT / "docs" / "compare.md", ROOT / "results" / "protocol.json"
TABLE = re.compile(r"(<!-- results/protocol: (error|power) -->\n\n)((?:\|.*\n)*)\n?")

TABLES, RULES, TUNING_SEEDS, SEED = 4_000, 7, 2, 20
FINAL_SEEDS = (3, 5, 10, 20)
SHARED = (0.0, 0.5)  # of the variance: what a seed is worth to all runs, so their correlation
SAMPLES, ACCURACY = 360, 0.95  # a test set like digits'
USUAL = COUNT // 2 + GROWTH  # the steps of the largest grid, the usual rate in the middle
STEPS = np.arange(-USUAL, USUAL + 1)
NEAREST = np.argsort(np.abs(STEPS), kind="stable")
LOST = -40.0  # a rate at which nothing is learned

# Mean scores over the steps, in standard deviations of a run below the best rate's.
CURVES = {
    "plateau": np.array([LOST, -10, -3, 0, 0, 0, 0, 0, -3, -10, LOST]),
    "cliff, 0.5 a step": np.where(STEPS <= 1, -0.5 * (1 - STEPS), LOST),
    "cliff, 2 a step": np.where(STEPS <= 1, -2.0 * (1 - STEPS), LOST),
    "peak, 1 a step": -1.0 * np.abs(STEPS),
    "cliff at the edge, 1 a step": np.where(STEPS <= 3, -1.0 * (3 - STEPS), LOST),
    "cliff one beyond, 1 a step": np.where(STEPS <= 4, -1.0 * (4 - STEPS), LOST),
    "cliff one beyond, 0.5 a step": np.where(STEPS <= 4, -0.5 * (4 - STEPS), LOST),
}


def drawn(rng, means, seeds, shared, noise):
    """Scores [table, rule, ..., seed] around means [table, rule, ...]; in standard deviations of a run."""
    shape = (len(means), *[1] * (means.ndim - 1), seeds)
    if noise == "normal":
        common = rng.normal(size=shape)
        own = rng.normal(size=(*means.shape, seeds))
        return means[..., None] + np.sqrt(shared) * common + np.sqrt(1 - shared) * own
    # Accuracies: this share of the test's answers depends on the seed alone, the same for all rules.
    deviation = np.sqrt(ACCURACY * (1 - ACCURACY) / SAMPLES)
    right = np.clip(ACCURACY + deviation * means, 0.1, 1.0)
    of_seed = round(shared * SAMPLES)
    count = rng.binomial(SAMPLES - of_seed, right[..., None], size=(*means.shape, seeds))
    if of_seed:
        luck = np.broadcast_to(rng.uniform(size=shape), count.shape)
        for value in np.unique(right):
            here = right == value
            distribution = special.bdtr(np.arange(of_seed + 1), of_seed, value)
            count[here] += np.searchsorted(distribution[:-1], luck[here])
    return count / SAMPLES / deviation


def tuned(heights):
    """The best and the second rate, as indices, of mean scores [..., step] over the largest grid."""
    index = np.arange(len(STEPS))
    low = np.full(heights.shape[:-1], GROWTH)
    high = len(STEPS) - 1 - low

    def tried():
        there = (index >= low[..., None]) & (index <= high[..., None])
        return np.where(there, heights, -np.inf)

    def promising(edge):
        height = np.take_along_axis(heights, edge[..., None], axis=-1)
        inner = (index > low[..., None]) & (index < high[..., None])
        equalled = ((heights == height) & inner).any(axis=-1)
        return ((tried() > height).sum(axis=-1) < NEAR_THE_BEST) & ~equalled

    for _ in range(2 * GROWTH):
        best = NEAREST[tried()[..., NEAREST].argmax(axis=-1)]
        down = promising(low) & (2 * best < low + high) & (low > 0)
        up = promising(high) & (2 * best > low + high) & (high < len(STEPS) - 1)
        low, high = low - down, high + up
    ranked = tried()
    best = NEAREST[ranked[..., NEAREST].argmax(axis=-1)]
    np.put_along_axis(ranked, best[..., None], -np.inf, axis=-1)
    return best, NEAREST[ranked[..., NEAREST].argmax(axis=-1)]


def paired_p(differences):
    """The mean of differences [..., seed] and their two-sided p-values: of t alone, and with the tuning."""
    n = differences.shape[-1]
    inflation = np.sqrt(max(1.0, n / (FINAL_SEEDS_PER_TUNING_SEED * TUNING_SEEDS)))
    mean, deviation = differences.mean(axis=-1), differences.std(axis=-1, ddof=1)
    equal = deviation < 1e-9
    t = np.abs(mean) * np.sqrt(n) / np.where(equal, 1.0, deviation)
    mean = np.where(np.abs(mean) < 1e-9, 0.0, mean)
    of_signs = np.where(mean == 0, 1.0, 2.0 ** (1 - n))
    plain, with_tuning = (
        np.where(equal, of_signs, 2 * special.stdtr(n - 1, -value)) for value in (t, t / inflation)
    )
    return mean, plain, with_tuning


def judged(final):
    """Of final scores [table, rule, best or second, seed], the first rule the baseline.

    Whether each rule is better at its best rate, and the p-values of that comparison and of the verdict.
    """
    best, second = final[:, :, 0], final[:, :, 1]
    mean, p_best, p = paired_p(best[:, 1:] - best[:, :1])
    against_second, _, p_better = paired_p(best[:, 1:] - second[:, :1])
    of_second, _, p_worse = paired_p(second[:, 1:] - best[:, :1])
    better = np.where(against_second > 0, np.maximum(p, p_better), 1.0)
    worse = np.where(of_second < 0, np.maximum(p, p_worse), 1.0)
    return mean > 0, p_best, np.where(mean > 0, better, np.where(mean < 0, worse, 1.0))


def holm(p):
    """P-values [table, comparison] corrected for each table."""
    order = p.argsort(axis=1)
    factors = np.arange(p.shape[1], 0, -1)
    corrected = np.maximum.accumulate(np.take_along_axis(p, order, axis=1) * factors, axis=1)
    restored = np.empty_like(p)
    np.put_along_axis(restored, order, corrected, axis=1)
    return restored


def simulate(rng, curve, seeds, shared, noise, effect=0.0, tables=TABLES):
    """Shares of tables: with a wrong verdict, with one if best rates alone are compared, with a true one.

    The last rule is better by `effect` standard deviations of the differences between two runs of a seed.
    """
    gain = np.zeros(RULES + 1)
    gain[-1] = effect * np.sqrt(2 * (1 - shared))
    means = np.broadcast_to(CURVES[curve] + gain[:, None], (tables, RULES + 1, len(STEPS)))
    trials = drawn(rng, means, TUNING_SEEDS, shared, noise).mean(axis=-1).round(9)
    chosen = np.stack(tuned(trials), axis=-1)
    final_means = CURVES[curve][chosen] + gain[:, None]
    is_better, p_best, p = judged(drawn(rng, final_means, seeds, shared, noise))
    verdicts, one_rate = holm(p) < LEVEL, holm(p_best) < LEVEL
    if effect:
        return {"power": float((verdicts[:, -1] & is_better[:, -1]).mean())}
    return {
        "error": float(verdicts.any(axis=1).mean()),
        "one_rate": float(one_rate.any(axis=1).mean()),
    }


def measure():
    rng = np.random.default_rng(SEED)
    errors, powers = [], []
    for curve, seeds, shared in itertools.product(CURVES, FINAL_SEEDS, SHARED):
        cell = {"curve": curve, "seeds": seeds, "shared": shared}
        for noise in ("normal", "accuracy"):
            errors.append(cell | {"noise": noise} | simulate(rng, curve, seeds, shared, noise))
        for effect in (1, 2):
            share = simulate(rng, curve, seeds, shared, "normal", effect)
            powers.append(cell | {"effect": effect} | share)
        print(errors[-2:], powers[-2:], flush=True)
    return {
        "command": "python docs/protocol.py --measure",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "seed": SEED,
        "tables": TABLES,
        "rules": RULES,
        "tuning_seeds": TUNING_SEEDS,
        "errors": errors,
        "powers": powers,
    }


def error_table(record):
    """The largest share of wrong tables over noise and correlation, for each curve and number of seeds."""
    return _table(
        "curve",
        [(curve, curve, "error") for curve in CURVES]
        + [("the worst of these if best rates alone are compared, by t", None, "one_rate")],
        lambda curve, key, seeds: max(
            cell[key]
            for cell in record["errors"]
            if cell["seeds"] == seeds and curve in (None, cell["curve"])
        ),
    )


def power_table(record):
    """The mean share of tables over the curves in which one true difference is found."""
    return _table(
        "true difference",
        [
            (f"{effect} standard deviation{'s' * (effect > 1)}", effect, "power")
            for effect in (1, 2)
        ],
        lambda effect, key, seeds: np.mean(
            [
                cell[key]
                for cell in record["powers"]
                if cell["seeds"] == seeds and cell["effect"] == effect
            ]
        ),
    )


def _table(head, rows, share):
    lines = [f"| {head} | " + " | ".join(f"{n} seeds" for n in FINAL_SEEDS) + " |"]
    lines.append("|---" * (len(FINAL_SEEDS) + 1) + "|")
    for name, which, key in rows:
        cells = " | ".join(f"{100 * share(which, key, n):.1f} %" for n in FINAL_SEEDS)
        lines.append(f"| {name} | {cells} |")
    return "".join(line + "\n" for line in lines)


def written(text):
    record = json.loads(RECORD.read_text("utf-8"))
    tables = {"error": error_table, "power": power_table}
    return TABLE.sub(lambda match: f"{match[1]}{tables[match[2]](record)}\n", text)


if __name__ == "__main__":
    if "--measure" in sys.argv:
        write_whole(RECORD, json.dumps(measure(), indent=1).encode() + b"\n")
    write_whole(PAGE, written(PAGE.read_text("utf-8")).encode())
