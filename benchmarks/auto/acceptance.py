"""What gaf.Auto and gaf.QuantileClip have to hold: `python benchmarks/auto/acceptance.py` rewrites the tables.

The tables of docs/auto.md come from results/auto/acceptance, a file of records for each problem. `--measure`
first trains what is missing there, one run after the other on one thread, in runs/auto-acceptance; the text
is read from GAF_DATA. After a stop the same command resumes.

Learning rates are tuned as `gaf compare` tunes them: on validation data that no run is trained on, on seeds
of their own, with a grid that grows where its edge is among the best. The runs of the tables have other seeds
and are scored on test data. Auto and its controls are not tuned: their rates stand here.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from gaf.lab.engine.config import RunConfig, TaskConfig, override
from gaf.lab.study import recipes
from gaf.lab.study.atlas.atlas import locked
from gaf.lab.study.atlas.records import SUFFIX, RecordingTable, RestoredRuns, RunRecords
from gaf.lab.study.compare import Trainer
from gaf.lab.study.grid import Executor
from gaf.lab.study.plan import AT_END, Plan, TuningPlan
from gaf.lab.study.pool import LOG, Pool
from gaf.lab.study.protocol import RateCurve, grid, growth
from gaf.lab.study.recipes.laptop import hard_case
from gaf.lab.study.settings import Setting, baseline, make

ROOT = Path(__file__).resolve().parents[2]
PAGE, RECORDS = ROOT / "docs" / "auto.md", ROOT / "results" / "auto" / "acceptance"
RUNS = ROOT / "runs" / "auto-acceptance"
TABLE = re.compile(r"(<!-- results/auto/acceptance: ([\w-]+) -->\n\n)((?:\|.*\n)*)")

TUNING = TuningPlan(rates=5, seeds=2)
SHORT = {"threads": 1, "monitor_every": 0, "evaluate_every": 0, "checkpoint_every": AT_END}
SPOILT = "gaf.lab.tasks.spoilt:spoilt"  # 2 % of the steps, gradients x 1000
AUTOS = ("auto", "auto(function=line)", "auto(function=clip)", "auto(function=sign)")


@dataclass(frozen=True)
class Problem:
    """A training, and the rules that run on it.

    Args:
        bases: configs by the name of their rule; a rule that begins with none of them changes the first.
        tuned: rules whose rate is tuned.
        given: rules and the rates they run at.
        borrowed: rules that run at the rate of a tuned one, by problem and name.
        seeds: of the table.
    """

    bases: Mapping[str, RunConfig]
    tuned: tuple[str, ...]
    given: Mapping[str, tuple[float, ...]]
    borrowed: Mapping[str, tuple[str, str]]
    seeds: int

    @property
    def rules(self) -> tuple[str, ...]:
        """All of them, in the order of the table."""
        return (*self.tuned, *self.borrowed, *self.given)

    @property
    def plan(self) -> Plan:
        seeds = tuple(range(self.seeds))
        return Plan(next(iter(self.bases.values())), (), seeds, TUNING)

    def setting(self, rule: str) -> Setting:
        """A rule by its name, under this name."""
        first, _, rest = rule.partition(" + ")
        if first not in self.bases:
            made = make(next(iter(self.bases.values())), rule)
        elif rest:
            made = make(self.bases[first], rest)
        else:
            made = baseline(self.bases[first])
        return replace(made, name=rule)

    def spoilt(self, borrowed: Mapping[str, tuple[str, str]]) -> Problem:
        """The same with spoilt steps."""
        bases = {}
        for name, config in self.bases.items():
            task = TaskConfig(kind=SPOILT, options=config.task.model_dump(exclude_defaults=True))
            changes = {"name": f"{config.name}-spoilt", "task": task}
            bases[name] = config.model_copy(update=changes)
        return replace(self, bases=bases, borrowed=borrowed)


def _digits() -> Problem:
    return Problem(
        bases={"sgd": recipes.get("digits-cnn-sgdm").model_copy(update=SHORT)},
        tuned=("sgd", "sgd + clip-norm-1", "adam"),
        given={
            "sgd + auto": (0.01, 0.1, 1.0),
            "adam + auto": (0.0001, 0.001, 0.01),
            **{f"sgd + {name}": (0.1,) for name in AUTOS[1:]},
            **{f"adam + {name}": (0.001,) for name in AUTOS[1:]},
        },
        borrowed={"sgd + quantileclip": ("digits", "sgd")},
        seeds=10,
    )


def _deep_sigmoid() -> Problem:
    return Problem(
        bases={"sgd": hard_case().model_copy(update=SHORT)},
        tuned=("adam",),
        given={
            "sgd": (0.1,),
            **{f"sgd + {name}": (0.1,) for name in AUTOS},
            **{f"adam + {name}": (0.001,) for name in AUTOS},
        },
        borrowed={},
        seeds=10,
    )


def _text() -> Problem:
    """The transformer of docs/spikes.py. Auto has no weight decay, AdamW that of its recipe."""
    changes = ["iterations=300", "batch_size=16", "task.data_options.size=32"]
    changes += ["task.model_options.depth=2", "task.model_options.width=48"]
    changes += ["schedule.every=iteration", "schedule.unit=iteration", "schedule.warmup=20"]

    def short(name: str) -> RunConfig:
        return override(recipes.get(name).model_copy(update=SHORT), changes)

    return Problem(
        bases={"sgd": short("text-transformer-sgdm"), "adamw": short("text-transformer-adamw")},
        tuned=("adamw",),
        given={
            **{f"sgd + {name}": (0.1,) for name in AUTOS},
            **{f"adam + {name}": (0.001,) for name in AUTOS},
        },
        borrowed={"adamw + quantileclip": ("text", "adamw")},
        seeds=5,
    )


# Borrowed rates of the spoilt problems are those of the clean ones.
PROBLEMS: dict[str, Problem] = {
    "digits": _digits(),
    "text": _text(),
    "deep-sigmoid": _deep_sigmoid(),
    "digits-spoilt": _digits().spoilt({"sgd + quantileclip": ("digits", "sgd")}),
    "text-spoilt": _text().spoilt({"adamw + quantileclip": ("text", "adamw")}),
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
    finals = {
        rule: [
            run
            for rate in rates(name, rule)
            for run in plan.finals(problem.setting(rule), rate, plan.seeds)
        ]
        for rule in problem.rules
    }
    trainer.train("runs", finals)


def recorded(name: str) -> RunRecords:
    return RunRecords(RECORDS / f"{name}{SUFFIX}")


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


def main() -> None:
    parser = argparse.ArgumentParser(description="What gaf.Auto and gaf.QuantileClip have to hold.")
    parser.add_argument("--measure", action="store_true", help="train what has no record")
    if parser.parse_args().measure:
        console = Console(stderr=True)
        with locked(RECORDS), Pool(1, RUNS / LOG) as executor:
            for name in PROBLEMS:
                measure(name, executor, console)


if __name__ == "__main__":
    main()
