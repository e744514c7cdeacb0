"""The comparison: settings x seeds on one task, judged seed by seed against the baseline and the controls."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from gaf.common.errors import GafError
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import RunConfig
from gaf.lab.study import comparison as comparisons
from gaf.lab.study.comparison import Comparison, RunRef, Tuning
from gaf.lab.study.grid import (
    RUNS,
    Executor,
    Outcome,
    Watch,
    check_place,
    digest,
    machine,
    run_grid,
)
from gaf.lab.study.judge import Entry, judge
from gaf.lab.study.plan import TUNING_SEEDS, Plan
from gaf.lab.study.settings import BASELINE, scaled


def compare(
    plan: Plan,
    folder: Path,
    executor: Executor,
    watch: Watch | None = None,
    command: Sequence[str] = (),
) -> Comparison:
    """Run what is not finished yet in the folder, judge all of it, and write ``comparison.json`` there.

    Raises:
        GafError: the folder holds something else, or no run of the baseline came to an end.
        Stopped: a signal came; the same call goes on.
    """
    check_folder(folder, plan)
    with folders.locked(folder):
        tuning, tuned = _tune(plan, folder, executor, watch)
        entries = plan.entries(tuned)
        runs = {
            entry.name: [plan.run(entry.setting, seed) for seed in plan.seeds] for entry in entries
        }
        by_seed = [run for same_seed in zip(*runs.values(), strict=True) for run in same_seed]
        found = run_grid(by_seed, folder / RUNS, executor, watch)
        outcomes = {name: [found[digest(each)] for each in some] for name, some in runs.items()}
        comparison = _conclude(plan, folder, entries, outcomes, tuning, command)
        comparisons.write(comparison, folder)
    return comparison


def check_folder(folder: Path, plan: Plan) -> None:
    """Refuse a folder that holds something else."""
    check_place(folder, "comparison", comparisons.COMPARISON)
    if (folder / comparisons.COMPARISON).is_file():
        title = comparisons.read(folder).title
        if title != plan.title:
            raise GafError(f"{folder} holds the comparison of {title}; choose another folder")


def _tune(
    plan: Plan, folder: Path, executor: Executor, watch: Watch | None
) -> tuple[Tuning | None, RunConfig | None]:
    """The learning rate that did best on the tuning seeds; of equally good ones that nearest to the given."""
    runs = plan.tuning()
    if not runs:
        return None, None
    found = run_grid(
        [each for some in runs.values() for each in some], folder / RUNS, executor, watch
    )
    tried: dict[str, float | None] = {}
    higher_is_better = True
    for factor, some in runs.items():
        results = [result for each in some if (result := found[digest(each)].result)]
        higher_is_better = results[0].higher_is_better if results else higher_is_better
        tried[factor] = sum(each.score for each in results) / len(results) if results else None
    chosen = _best(tried, higher_is_better)
    return Tuning(seeds=TUNING_SEEDS, tried=tried, chosen=chosen), scaled(
        plan.base, _factor(chosen)
    )


def _best(tried: Mapping[str, float | None], higher_is_better: bool) -> str:
    scores = {name: score for name, score in tried.items() if score is not None}
    if not scores:
        return "x1"
    best = max(scores.values()) if higher_is_better else min(scores.values())
    good = [name for name, score in scores.items() if score == best]
    return min(good, key=lambda name: abs(math.log(_factor(name))))


def _factor(name: str) -> float:
    return float(name[1:])


def _conclude(
    plan: Plan,
    folder: Path,
    entries: Sequence[Entry],
    outcomes: Mapping[str, Sequence[Outcome]],
    tuning: Tuning | None,
    command: Sequence[str],
) -> Comparison:
    baseline = outcomes[BASELINE]
    first = next((each.result for each in baseline if each.result), None)
    if first is None:
        raise GafError(f"no run of the baseline came to an end: {baseline[0].error}")
    return Comparison(
        title=plan.title,
        task=describe(plan.base),
        score_name=first.score_name,
        higher_is_better=first.higher_is_better,
        chance=first.chance,
        seeds=plan.seeds,
        baseline=BASELINE,
        rows=judge(entries, outcomes, plan.seeds, tuning),
        runs=tuple(
            _reference(folder, name, seed, outcome)
            for name, some in outcomes.items()
            for seed, outcome in zip(plan.seeds, some, strict=True)
        ),
        tuning=tuning,
        command=tuple(command),
        environment=machine(first.folder),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def _reference(folder: Path, name: str, seed: int, outcome: Outcome) -> RunRef:
    result = outcome.result
    return RunRef(
        setting=name,
        seed=seed,
        folder=outcome.folder.relative_to(folder).as_posix(),
        status="failed" if result is None else "diverged" if result.diverged else "finished",
        score=None if result is None else result.score,
        error=outcome.error,
    )


def describe(base: RunConfig) -> str:
    """What is trained, in a line.

    Example:
        >>> from gaf.lab.study import recipes
        >>> describe(recipes.get("digits-cnn-sgdm"))
        'digits-cnn on digits, 20 epochs in batches of 64, sgd with lr 0.1, momentum 0.9, weight decay 0.0005'
    """
    rule = base.optimizer
    numbers = [f"lr {rule.lr:g}"]
    if rule.momentum:
        numbers.append(f"momentum {rule.momentum:g}")
    if rule.weight_decay:
        numbers.append(f"weight decay {rule.weight_decay:g}")
    return f"{training(base)}, {rule.name} with {', '.join(numbers)}"


def training(config: RunConfig) -> str:
    """What is trained and for how long, whatever the rule."""
    task = config.task
    what = task.kind if task.own else f"{task.model} on {task.data}"
    length = f"{config.epochs} epochs" if config.epochs else f"{config.iterations} steps"
    return f"{what}, {length} in batches of {config.batch_size}"
