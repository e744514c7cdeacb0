"""What gaf.Auto and gaf.QuantileClip have to hold: `python -m benchmarks.auto.acceptance` writes the tables.

The tables of docs/auto.md come from results/auto/acceptance, a file of records for each problem. `--measure`
first trains what is missing there, one run after the other on one thread, in runs/auto-acceptance; the text
is read from GAF_DATA. After a stop the same command resumes.

Learning rates are tuned as `gaf compare` tunes them: on validation data that no run is trained on, on seeds
of their own, with a grid that grows where its edge is among the best. The runs of the tables have other seeds
and are scored on test data.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path

from benchmarks.auto.acceptance_plan import (
    ADAM_CONTROLS,
    CONTROLS,
    MARGINS,
    PROBLEMS,
    TUNING,
    Margin,
)
from rich.console import Console
from scipy import special

from gaf.common.files import write_whole
from gaf.lab.reports.numbers import counted, fixed, score
from gaf.lab.study.atlas.atlas import locked
from gaf.lab.study.atlas.records import SUFFIX, RecordingTable, RestoredRuns, RunRecord, RunRecords
from gaf.lab.study.compare import Trainer
from gaf.lab.study.grid import Executor
from gaf.lab.study.pool import LOG, Pool
from gaf.lab.study.protocol import RateCurve, grid, growth
from gaf.lab.study.statistics import CONFIDENCE as STUDENT
from gaf.lab.study.statistics import Paired, deviation, mean, paired

ROOT = Path(__file__).resolve().parents[2]
PAGE, RECORDS = ROOT / "docs" / "auto.md", ROOT / "results" / "auto" / "acceptance"
RUNS = ROOT / "runs" / "auto-acceptance"
TABLE = re.compile(r"(<!-- results/auto/acceptance: ([\w-]+) -->\n\n)((?:\|.*\n)*)")

CONFIDENCE = 0.9  # of the intervals that have to stay within a margin

# By the name of a table: its problems, and what the columns of each say of it.
TABLES = {
    "digits": {"digits": "clean", "digits-spoilt": "spoilt"},
    "text": {"text": "clean", "text-spoilt": "spoilt"},
    "deep-sigmoid": {"deep-sigmoid": "960 images", "deep-sigmoid-whole": "1,200 images"},
}


def measure(name: str, executor: Executor, console: Console) -> None:
    """Tune and run what the records of a problem do not have."""
    problem, records = PROBLEMS[name], recorded(name)
    watch = RecordingTable(console, name, records)
    trainer = Trainer(RUNS / name, RestoredRuns(executor, records), watch)
    plan, tuned = problem.plan, {rule: problem.setting(rule) for rule in problem.tuned}
    tried = {rule: grid(one.config.optimizer.lr, TUNING.rates) for rule, one in tuned.items()}
    while any(tried.values()):
        trials = {
            rule: [run for rate in several for run in plan.trials(tuned[rule], rate)]
            for rule, several in tried.items()
        }
        trainer.train("tuning", trials)
        tried = {rule: growth(curve(name, rule), TUNING.rates) for rule in tuned}
    runs = {
        rule: [
            run
            for rate in rates(name, rule)
            for run in plan.finals(problem.setting(rule), rate, plan.seeds)
        ]
        for rule in problem.rules
    }
    trainer.train("runs", runs)


@cache
def recorded(name: str) -> RunRecords:
    return RunRecords(RECORDS / f"{name}{SUFFIX}")


def complete(name: str, *rules: str) -> bool:
    """Whether all runs of these rules are recorded."""
    problem = PROBLEMS[name]
    runs = Counter(run.setting for run in recorded(name).runs.values() if run.scored_on == "test")
    wanted = {rule: problem.seeds * len(problem.given.get(rule, (None,))) for rule in rules}
    return all(runs[rule] >= count for rule, count in wanted.items())


def has_reference(name: str) -> bool:
    """Whether there are tuned rules, and all their runs."""
    tuned = PROBLEMS[name].tuned
    return bool(tuned) and complete(name, *tuned)


def curve(name: str, rule: str) -> RateCurve:
    """The validation scores of a tuned rule."""
    scores: dict[float, list[float]] = {}
    runs = [run for run in recorded(name).runs.values() if run.setting == rule]
    for run in sorted(runs, key=lambda run: run.seed):
        if run.scored_on == "validation":
            scores.setdefault(run.rate, []).append(run.score)
    usual = PROBLEMS[name].setting(rule).config.optimizer.lr
    return RateCurve.of(scores, usual, runs[0].higher_is_better)


def rates(name: str, rule: str) -> tuple[float, ...]:
    """At which a rule runs for the table."""
    problem = PROBLEMS[name]
    if rule in problem.given:
        return problem.given[rule]
    best = curve(*problem.borrowed.get(rule, (name, rule))).best
    assert best is not None
    return (best,)


def finals(name: str, rule: str, rate: float) -> list[RunRecord]:
    """The runs on the test data, in the order of the seeds."""
    key = rule, rate, "test"
    runs = [
        run for run in recorded(name).runs.values() if (run.setting, run.rate, run.scored_on) == key
    ]
    return sorted(runs, key=lambda run: run.seed)


def scores(name: str, rule: str, rate: float) -> list[float]:
    return [run.score for run in finals(name, rule, rate)]


def best_tuned(name: str) -> str:
    """The rule with the best validation score: to choose it by the test would favour it."""
    curves = {rule: curve(name, rule) for rule in PROBLEMS[name].tuned}
    return max(curves, key=lambda rule: max(curves[rule].heights.values()))


def unit(name: str) -> tuple[float, int]:
    """What a score is multiplied by in a table, and its places after the point: points, or bits."""
    return (1.0, 3) if name.startswith("text") else (100.0, 2)


def written_difference(name: str, pair: Paired, confidence: float = STUDENT) -> str:
    """The mean of a difference and its interval."""
    factor, digits = unit(name)
    ends = interval(pair, confidence)
    center, low, high = (fixed(factor * x, digits, sign=True) for x in (pair.mean, *ends))
    return f"{center} [{low}, {high}]" if math.isfinite(pair.mean) else center


def interval(pair: Paired, confidence: float) -> tuple[float, float]:
    """Student's interval of a mean difference."""
    half = float(special.stdtrit(pair.n - 1, (1 + confidence) / 2)) * pair.std / math.sqrt(pair.n)
    return pair.mean - half, pair.mean + half


def rule_table(titles: Mapping[str, str]) -> str:
    """Each rule on the problems: rate, mean and deviation, and the difference to the best tuned rule."""
    names = [name for name in titles if recorded(name).runs]
    heads, first = ["rule"], names[0]
    for name in names:
        heads += ["rate", titles[name]]
        heads += [f"minus `{best_tuned(name)}`"] if has_reference(name) else []
        heads += [f"above {100 * level:g} %"] if (level := PROBLEMS[name].level) else []
    rows = [
        [f"`{rule}`", *(cell for name in names for cell in rule_cells(name, rule, number))]
        for rule in PROBLEMS[first].rules
        for number in range(len(rates(first, rule)))
    ]
    return markdown(heads, rows)


def rule_cells(name: str, rule: str, number: int) -> list[str]:
    """What a table says of a rule on a problem, at one of its rates."""
    problem, (factor, digits) = PROBLEMS[name], unit(name)
    if rule not in problem.rules or not complete(name, rule):
        word = "not run" if rule in problem.rules else ""
        return ["", word] + [""] * (has_reference(name) + (problem.level is not None))
    rate = rates(name, rule)[number]
    runs = finals(name, rule, rate)
    own = [run.score for run in runs]
    spread = deviation(own)
    text = score(factor * mean(own), None if spread is None else factor * spread, digits)
    diverged = counted({"diverged": sum(run.diverged for run in runs)}, len(runs))
    cells = [f"{rate:.2g}", ", ".join(filter(None, (text, diverged)))]
    if has_reference(name):
        best = best_tuned(name)
        reference = scores(name, best, *rates(name, best))
        pair = paired(own, reference)
        cells.append("" if rule == best else written_difference(name, pair))
    if problem.level is not None:
        cells.append(f"{sum(one > problem.level for one in own)} of {len(own)}")
    return cells


def control_table() -> str:
    """Auto minus each of its controls on every problem."""
    rows, names = [], [name for name in PROBLEMS if has_reference(name)]
    for kind, control in (*product(["sgd"], CONTROLS), *product(["adam"], ADAM_CONTROLS)):
        rules = (f"{kind} + auto", f"{kind} + {control}")
        row = [f"`{rules[0]}` minus `{rules[1]}`"]
        for name in names:
            rate = PROBLEMS[name].given.get(rules[1])
            row.append("")
            if rate and complete(name, *rules):
                pair = paired(*(scores(name, rule, *rate) for rule in rules))
                row[-1] = written_difference(name, pair)
        rows.append(row)
    return markdown(["", *names], rows)


def margin_table() -> str:
    """The differences that have to stay within a margin, with their 90 % intervals."""
    rows = []
    for one in MARGINS:
        factor, _ = unit(one.rule[0])
        margin = ("± " if one.both_sides else "") + f"{factor * one.margin:g}"
        cells = ["not run", "", ""]
        if all(complete(*side) for side in one.sides):
            pair = paired(*(scores(name, rule, *rates(name, rule)) for name, rule in one.sides))
            difference = written_difference(one.rule[0], pair, CONFIDENCE)
            ends = (pair.mean, pair.mean), interval(pair, CONFIDENCE)
            cells = [difference, *("yes" if within(one, *two) else "**no**" for two in ends)]
        rows.append([one.title, margin, *cells])
    return markdown(["", "margin", "difference", "mean within", "interval within"], rows)


def within(one: Margin, low: float, high: float) -> bool:
    """Whether all differences from the low to the high one are on the right side of the margin."""
    if not one.rule[0].startswith("text"):  # where a higher score is better
        low, high = -high, -low
    return high <= one.margin and (not one.both_sides or low >= -one.margin)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def written(text: str) -> str:
    """A page with its tables as the records have them."""

    def table(name: str) -> str:
        if name in TABLES:
            return rule_table(TABLES[name])
        return {"controls": control_table, "margins": margin_table}[name]()

    return TABLE.sub(lambda match: match[1] + table(match[2]), text)


def main() -> None:
    parser = argparse.ArgumentParser(description="What gaf.Auto and gaf.QuantileClip have to hold.")
    parser.add_argument("--measure", action="store_true", help="train what has no record")
    if parser.parse_args().measure:
        console = Console(stderr=True)
        with locked(RECORDS), Pool(1, RUNS / LOG) as executor:
            for name in PROBLEMS:
                measure(name, executor, console)
    write_whole(PAGE, written(PAGE.read_text("utf-8")).encode())


if __name__ == "__main__":
    main()
