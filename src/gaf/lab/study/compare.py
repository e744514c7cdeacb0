"""The comparison: every rule at its own best learning rate, judged by seed against the tuned baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gaf.common.errors import GafError
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import RunConfig
from gaf.lab.study import pool, results, scripts
from gaf.lab.study.grid import (
    RUNS,
    Executor,
    Outcome,
    Watch,
    check_place,
    digest,
    higher_is_better,
    machine,
    places,
    run_grid,
)
from gaf.lab.study.judge import Entry, Finals, judge
from gaf.lab.study.live import LiveTable
from gaf.lab.study.plan import Plan
from gaf.lab.study.protocol import significant
from gaf.lab.study.results import Comparison, RunRef, StudyCost, Tuning
from gaf.lab.study.tuning import tune_rates
from gaf.lab.study.words import sentences
from gaf.lab.tasks.script import ScriptOptions

COMPARISON = "comparison"  # the folder of a comparison, within that of what it is a part of


def compare(
    plan: Plan,
    folder: Path,
    executor: Executor,
    watch: Watch | None = None,
    command: Sequence[str] = (),
    finalists: Callable[[Sequence[Entry], Tuning, bool], Sequence[str]] | None = None,
) -> Comparison:
    """Run what is not finished yet in the folder, judge all of it, and write ``comparison.json`` there.

    Args:
        plan: what to compare.
        folder: of the comparison.
        executor: trains runs.
        watch: shows them on their way.
        command: that asked for it.
        finalists: names the settings that go on to the final, beside the baseline and their controls, given
            all of them, the tuning, and whether a higher score is better; unset, all do.

    Raises:
        GafError: the folder holds something else, or no run of the baseline came to an end.
        Stopped: a signal came; the same call resumes.
    """
    check_folder(folder, plan)
    trainer = Trainer(folder, executor, watch or Watch())
    script = plan.base.task.is_script
    with folders.locked(folder):
        entries, seeds = plan.entries(), look(plan, folder)
        if script:
            first = plan.first(seeds.every)
            scripts.check_first(trainer.train("the first run", {entries[0].name: [first]}))
            trainer.watch.first_run()
        tuning, tried = tune_rates(plan, entries, trainer.train) if plan.tuning else (None, {})
        if finalists and tuning:
            higher = higher_is_better(chain.from_iterable(tried.values()))
            entries = _chosen(entries, finalists(entries, tuning, higher))
        finals = _finals(plan, entries, tuning, tried, seeds, trainer)
        if script and not (tuning and len(tuning.seeds) > 1):  # which the trials have shown
            scripts.check_finals(finals)
        said = scripts.facts(entries[0].name, finals) if script else None
        if said:
            entries, finals, tuning = scripts.named(said, entries, finals, tuning)
        comparison = _conclude(plan, folder, entries, finals, seeds, tuning, tried, command)
        if said:
            comparison = comparison.model_copy(update={"score_on": said.scored_on})
        results.write(comparison, folder)
    return comparison


def compare_here(
    plans: Mapping[Path, Plan],
    console: Console,
    workers: int | None = None,
    command: Sequence[str] = (),
) -> dict[Path, Comparison]:
    """The comparisons of plans, each in its folder, trained by processes of this machine.

    Args:
        plans: by the folder of each comparison.
        console: shows the runs on their way.
        workers: runs at once; unset, as many as the machine holds.
        command: that asked for it.
    """
    for folder, plan in plans.items():
        check_folder(folder, plan)
    first, plan = next(iter(plans.items()))
    comparisons = {}
    with pool.local_pool(plan.base, first / RUNS, workers) as processes:
        for folder, plan in plans.items():
            console.print(Text(f"{plan.title}: {_expected(plan)}"), soft_wrap=True)
            watch = LiveTable(console, plan.title, sum(plan.least_runs()), processes.slots)
            comparisons[folder] = compare(plan, folder, processes, watch, command)
    return comparisons


def _expected(plan: Plan) -> str:
    """How many runs there will be, in a line."""
    trials, finals = plan.least_runs()
    runs = f"{finals} runs for the table"
    return f"at least {trials} trials to tune the learning rates, then {runs}" if trials else runs


def default_folder(plan: Plan) -> Path:
    """Of a comparison for which none is named."""
    return Path("runs") / f"compare-{plan.title}"


def _chosen(entries: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    """The baseline, the settings of these names, and their controls."""
    stay = {entries[0].name, *names}
    stay |= {entry.control for entry in entries if entry.name in stay and entry.control}
    return [entry for entry in entries if entry.name in stay]


@dataclass(frozen=True)
class Seeds:
    """The seeds of a look at a comparison: those that decide, and those that an earlier look has used up."""

    new: tuple[int, ...]
    earlier: tuple[int, ...] = ()

    @property
    def every(self) -> tuple[int, ...]:
        return (*self.earlier, *self.new)


def look(plan: Plan, folder: Path) -> Seeds:
    """The seeds of this look.

    A larger number of seeds after a verdict is a new look: who goes on until a verdict pleases is right too
    often by chance. So only the seeds that nobody has seen decide. The same number again, or a smaller one,
    is the same look.
    """
    if not (folder / Comparison.file).is_file():
        return Seeds(plan.seeds)
    before = results.read(folder, Comparison)
    if not _is_same_question(plan, folder, before):
        return Seeds(plan.seeds)
    used = (*before.earlier, *before.seeds)
    new = tuple(seed for seed in plan.seeds if seed not in used)
    return Seeds(new, used) if new else Seeds(before.seeds, before.earlier)


def _is_same_question(plan: Plan, folder: Path, before: Comparison) -> bool:
    """Whether the baseline's runs in a record are those that the plan would have: config, code and data."""
    setting, row = plan.entries()[0].setting, before.rows[0]
    if (before.tuning is None) != (plan.tuning is None) or row.rate is None:
        return False
    rate = row.rate if before.tuning else setting.config.optimizer.lr
    if before.tuning and plan.base.task.is_script:  # which is planned by factors on its rate
        rate = significant(rate / before.tuning.curves[row.setting].usual)
    planned = places(plan.finals(setting, rate, before.seeds), folder / RUNS).values()
    recorded = {
        folder / run.folder
        for run in before.runs
        if run.setting == row.setting and run.rate is None
    }
    return {place.folder for place in planned} == recorded


@dataclass(frozen=True)
class Trainer:
    """Where runs are trained, and by what."""

    folder: Path
    executor: Executor
    watch: Watch

    def train(
        self, title: str, runs: Mapping[str, Sequence[RunConfig]]
    ) -> dict[str, list[Outcome]]:
        """What came of runs, by setting; one after the other of each setting, so that all get on alike."""
        self.watch.phase(title)
        self.watch.settings(
            {digest(run): name for name, several in runs.items() for run in several}
        )
        order = _in_turn(runs.values())
        outcomes = run_grid(order, self.folder / RUNS, self.executor, self.watch)
        return {name: [outcomes[digest(run)] for run in several] for name, several in runs.items()}


def _in_turn(rows: Iterable[Sequence[RunConfig]]) -> list[RunConfig]:
    """The first of each row, then the second of each, and so on.

    Example:
        >>> _in_turn([["a", "b"], ["c"]])
        ['a', 'c', 'b']
    """
    rows = [list(row) for row in rows]
    longest = max(map(len, rows), default=0)
    return [row[i] for i in range(longest) for row in rows if i < len(row)]


def read(folder: Path) -> Comparison:
    """The comparison in a folder; GafError says in one sentence what is wrong."""
    comparison = results.read(folder, Comparison)
    # sentences follow from the record, and may be worded otherwise than when it was written
    return comparison.model_copy(update={"rows": sentences(comparison)})


def check_folder(folder: Path, plan: Plan) -> None:
    """Refuse a folder that holds something else."""
    check_place(folder, Comparison.noun, Comparison.file)
    if (folder / Comparison.file).is_file():
        title = results.read(folder, Comparison).title
        if title != plan.title:
            raise GafError(f"{folder} holds the comparison of {title}; choose another folder")


def _finals(
    plan: Plan,
    entries: Sequence[Entry],
    tuning: Tuning | None,
    tried: Mapping[str, Sequence[Outcome]],
    seeds: Seeds,
    trainer: Trainer,
) -> dict[str, Finals]:
    """The runs of the table: each rule at its best rate and, where rates are tuned, at the next best.

    A rule none of whose trials came to an end has none: there is no rate to run it at.
    """
    rates: dict[str, list[float]] = {}
    for entry in entries:
        curve = tuning.curves[entry.name] if tuning else None
        wanted = (
            (curve.chosen, curve.second) if curve else (entry.setting.config.optimizer.lr, None)
        )
        rates[entry.name] = [rate for rate in wanted if rate is not None]
    runs = {
        entry.name: list(
            chain.from_iterable(
                plan.finals(entry.setting, rate, seeds.every) for rate in rates[entry.name]
            )
        )
        for entry in entries
    }
    outcomes = trainer.train("final" if tuning else "runs", runs)
    n, old = len(seeds.every), len(seeds.earlier)
    finals = {}
    for name, several in outcomes.items():
        if not rates[name]:
            finals[name] = Finals([tried[name][0]] * len(seeds.new))
            continue
        best, second = (*rates[name], None)[:2]
        finals[name] = Finals(
            rate=best,
            outcomes=several[old:n],
            second_rate=second,
            second_outcomes=several[n + old :],
            earlier=several[:old],
        )
    return finals


def _conclude(
    plan: Plan,
    folder: Path,
    entries: Sequence[Entry],
    finals: Mapping[str, Finals],
    seeds: Seeds,
    tuning: Tuning | None,
    tried: Mapping[str, Sequence[Outcome]],
    command: Sequence[str],
) -> Comparison:
    baseline = entries[0].name
    outcomes = finals[baseline].outcomes
    first = next((outcome.result for outcome in outcomes if outcome.result), None)
    if first is None:
        raise GafError(f"no run of the baseline came to an end: {outcomes[0].error}")
    comparison = Comparison(
        title=plan.title,
        task=describe(plan.base),
        score_name=first.score_name,
        higher_is_better=first.higher_is_better,
        chance=first.chance,
        seeds=seeds.new,
        earlier=seeds.earlier,
        baseline=baseline,
        rows=judge(entries, finals, seeds.new, len(tuning.seeds) if tuning else 0),
        score_on=plan.base.task.score_on,
        runs=tuple(
            run for name, runs in finals.items() for run in _references(folder, name, runs, seeds)
        ),
        tuning=tuning,
        cost=_cost(list(chain.from_iterable(tried.values())), list(finals.values())),
        command=tuple(command),
        environment=machine(first.folder),
        created=results.now(),
    )
    return comparison.model_copy(update={"rows": sentences(comparison)})


def _references(folder: Path, name: str, finals: Finals, seeds: Seeds) -> list[RunRef]:
    """The runs of a setting, those at its best rate first."""
    best = zip(seeds.new, finals.outcomes, strict=True)
    second = zip(seeds.new, finals.second_outcomes, strict=False)
    return [
        *(_reference(folder, name, seed, outcome, None) for seed, outcome in best),
        *(_reference(folder, name, seed, outcome, finals.second_rate) for seed, outcome in second),
    ]


def _reference(folder: Path, name: str, seed: int, outcome: Outcome, rate: float | None) -> RunRef:
    result = outcome.result
    return RunRef(
        setting=name,
        seed=seed,
        rate=rate,
        folder=outcome.folder.relative_to(folder).as_posix(),
        status="failed" if result is None else "diverged" if result.diverged else "finished",
        score=outcome.score,
        error=outcome.error,
    )


def _cost(tried: Sequence[Outcome], finals: Sequence[Finals]) -> StudyCost:
    judged = [
        outcome
        for one in finals
        if one.rate is not None  # else its trials failed, and stand in its row
        for outcome in (*one.earlier, *one.outcomes, *one.second_outcomes)
    ]
    ended = [outcome.result for outcome in (*tried, *judged) if outcome.result]
    return StudyCost(
        trials=len(tried),
        finals=len(judged),
        steps=sum(result.steps for result in ended),
        seconds=sum(result.steps * result.seconds_per_step for result in ended),
    )


def describe(base: RunConfig) -> str:
    """What is trained, in a line.

    Example:
        >>> from gaf.lab.study import recipes
        >>> describe(recipes.get("digits-cnn-sgdm"))
        'digits-cnn on digits, 20 epochs in batches of 64, sgd with lr 0.1, momentum 0.9, weight decay 0.0005'
    """
    rule = base.optimizer
    if base.task.is_script:
        return ScriptOptions.of(base.task).call
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
