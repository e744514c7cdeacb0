"""The development suite of gaf.Auto: an untuned rule against tuned ones.

    python benchmarks/auto/run.py marks     # the tuned rules, once: writes marks.json beside this file
    python benchmarks/auto/run.py score     # gaf.Adam and gaf.SGD with gaf.Auto(), untuned, against the marks

A tuned rule's rate is the best of seven by the mean validation score of two seeds; on eight others it is
scored on test data. A task's mark is the best of the four rules' mean scores there. A rule passes a task if
its mean over the same seeds is within 5 % of the mark, or, where the score is an error, within one point. The
suite is for choosing a rule: what was chosen by it is not shown by it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from tasks import TASKS, TEST, VALIDATION, train
from tuned import RULES, train_all

import gaf

MARKS = Path(__file__).with_name("marks.json")
CHOOSING, SCORING = (100, 101), tuple(range(8))

# What is judged, by name: untuned, and the same for all tasks. The rate's level is of no account.
UNTUNED: dict[str, Callable] = {
    "adam": lambda model: gaf.Adam(model.parameters(), activation=gaf.Auto()),
    "sgd": lambda model: gaf.SGD(model.parameters(), lr=0.1, momentum=0.9, activation=gaf.Auto()),
}


def marks(names: list[str]) -> None:
    """Tune and score the four rules on each task that the file does not have."""
    record = json.loads(MARKS.read_text()) if MARKS.exists() else {}
    for name in names:
        if name in record:
            continue
        task = TASKS[name]
        chosen, tuning = {}, {}
        found = train_all(task, {rule: rates for rule, (_, rates, _) in RULES.items()}, CHOOSING)
        for rule, (_, rates, _) in RULES.items():
            means = [statistics.mean(scores) for scores in found[rule][VALIDATION]]
            chosen[rule] = [rates[means.index(min(means))]]
            tuning[rule] = dict(zip(map(str, rates), _rounded(means), strict=True))
        scored = train_all(task, chosen, SCORING)
        record[name] = {
            rule: {
                "rate": chosen[rule][0],
                "validation": tuning[rule],
                "scores": _rounded(scored[rule][TEST][0]),
            }
            for rule in RULES
        }
        MARKS.write_text(json.dumps(record, indent=1) + "\n")
        print(f"{name}: {mark(name, len(SCORING))}", flush=True)


def _rounded(scores: list[float]) -> list[float | None]:
    """Scores as JSON holds them; null for a training that diverged."""
    return [round(score, 6) if math.isfinite(score) else None for score in scores]


def mark(task: str, seeds: int) -> tuple[str, float]:
    """The best tuned rule of a task and its mean score on the first seeds."""

    def mean(scores: list[float | None]) -> float:
        return statistics.mean(math.inf if s is None else s for s in scores[:seeds])

    rules = json.loads(MARKS.read_text())[task]
    return min(((rule, mean(row["scores"])) for rule, row in rules.items()), key=lambda x: x[1])


def limit(task: str, best: float) -> float:
    """The largest score that passes."""
    return max(1.05 * best, best + 0.01 if TASKS[task].measure == "error" else 0)


def score(make: Callable, names: list[str], seeds: int) -> None:
    """Train an untuned rule; print how many tasks it passes, and the mean of its scores over the limits."""
    passed, ratios = 0, []
    for name in names:
        rule, best = mark(name, seeds)
        scores = [train(TASKS[name], seed, make)[TEST] for seed in SCORING[:seeds]]
        mean = statistics.mean(scores)
        ratio = mean / limit(name, best)
        passed += ratio <= 1
        ratios.append(min(ratio, 10.0))
        spread = statistics.stdev(scores) if math.isfinite(mean) and seeds > 1 else math.nan
        within = "passes" if ratio <= 1 else "FAILS"
        print(
            f"{name:16} {mean:.4f} ± {spread:.4f}  limit {limit(name, best):.4f}"
            f"  mark {best:.4f} ({rule})  {ratio:.2f} {within}",
            flush=True,
        )
    geometric = math.exp(statistics.mean(map(math.log, ratios)))
    print(f"{passed} of {len(names)} tasks pass; score over limit {geometric:.3f} (geometric mean)")


def main() -> None:
    parser = argparse.ArgumentParser(description="The development suite of gaf.Auto.")
    parser.add_argument("what", choices=("marks", "score"))
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--rules", nargs="*", default=list(UNTUNED), choices=list(UNTUNED))
    parser.add_argument("--seeds", type=int, default=5, help=f"at most {len(SCORING)}")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.what == "marks":
        marks(args.tasks)
    else:
        for rule in args.rules:
            print(f"gaf.Auto with {rule}, {args.seeds} seeds")
            score(UNTUNED[rule], args.tasks, args.seeds)


if __name__ == "__main__":
    main()
