"""The comparison: settings x seeds on one task, judged seed by seed against the baseline and the controls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gaf.common.errors import GafError
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import RunConfig, override
from gaf.lab.study import recipes, results
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
from gaf.lab.study.judge import Entry, judge, sentences
from gaf.lab.study.recipes.laptop import STEEP
from gaf.lab.study.results import Comparison, RunRef, Tuning
from gaf.lab.study.settings import (
    BASELINE,
    TUNED,
    Setting,
    at_rate,
    control,
    make,
    without_function,
)
from gaf.lab.study.statistics import mean

UNBOUNDED = "log(0.1, 20)"
# What any answer to "does it help?" has to stand beside, two functions, one of them bounded, and Auto.
SETTINGS = (
    *("tuned", "adam", "clip-value-0.1", "clip-norm-0.1"),
    *("arctan(0.1, 20)", UNBOUNDED, "auto"),
)
SEEDS = 5
CNN_EPOCHS = 8  # of the recipe's 20
CNN_MONITOR = 40  # steps of 184: often enough for curves, and 3 % of the time a step takes
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # on the baseline's learning rate
# Not those of the table: a rate chosen on them would look too good on them.
TUNING_SEEDS = (1000, 1001)


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Args:
        base: the baseline; the function of one that has one becomes a setting.
        settings: names as :mod:`gaf.lab.study.settings` reads them, beside the baseline.
        seeds: of the table.
    """

    base: RunConfig
    settings: tuple[str, ...] = SETTINGS
    seeds: tuple[int, ...] = tuple(range(SEEDS))

    def __post_init__(self) -> None:
        base = self.base
        if base.devices * base.nodes > 1:
            raise GafError("a comparison trains each run on one device: set devices=1, nodes=1")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise GafError("a comparison needs seeds, each once")
        if set(self.seeds) & set(TUNING_SEEDS):
            raise GafError(f"the seeds {TUNING_SEEDS} are for tuning; choose others")
        override(base, [f"seed={max(self.seeds)}"])  # it may be too large for a config
        plain, own = without_function(base)
        # results depend on the threads in the last bit, so they are part of what is compared
        plain = plain.model_copy(update={"threads": base.threads or 1})
        object.__setattr__(self, "base", plain)
        object.__setattr__(self, "settings", (*own, *self.settings))
        self.entries()  # a name that does not exist is refused here

    @property
    def title(self) -> str:
        return self.base.name

    def entries(self, tuned: RunConfig | None = None) -> list[Entry]:
        """The settings in order, each config once, each function followed by its matched control."""
        by_config: dict[str, list[Setting]] = {}  # of equal configs the first gives the name
        controls: dict[str, str] = {}

        def add(setting: Setting) -> str:
            key = digest(setting.config)
            by_config.setdefault(key, []).append(setting)
            return key

        add(Setting(BASELINE, "baseline", self.base))
        for text in self.settings:
            if text == TUNED:
                add(Setting(TUNED, "tuned", tuned or self.base))
                continue
            setting = make(self.base, text)
            key = add(setting)
            if setting.kind == "function":
                controls[key] = add(control(setting))
        return [
            Entry(
                first,
                tuple(dict.fromkeys(same.name for same in others if same.name != first.name)),
                by_config[controls[key]][0].name if key in controls else None,
            )
            for key, (first, *others) in by_config.items()
        ]

    def runs(self, settings: Iterable[Setting], seeds: Sequence[int]) -> dict[str, list[RunConfig]]:
        """The config of each run, by the name of its setting and in the order of the seeds."""
        return {
            setting.name: [
                setting.config.model_copy(
                    update={"name": f"{self.title}: {setting.name}", "seed": seed}
                )
                for seed in seeds
            ]
            for setting in settings
        }


def digits() -> list[tuple[RunConfig, tuple[str, ...]]]:
    """What is compared when nothing is named, in a minute or two: data that needs no download.

    A perceptron whose gradient vanishes, so that plain SGD stays at chance and a steep f makes the largest
    difference, and a CNN that trains well without any.
    """
    short = {"checkpoint_every": 10_000}  # at the end, or when stopped: the runs take seconds
    cnn = recipes.get("digits-cnn-sgdm").model_copy(
        update={
            "name": f"digits-cnn-{CNN_EPOCHS}-epochs",
            "epochs": CNN_EPOCHS,
            "monitor_every": CNN_MONITOR,
            **short,
        }
    )
    mlp = recipes.get("digits-deep-mlp-sgd").model_copy(update=short)
    steep = tuple(STEEP if name == UNBOUNDED else name for name in SETTINGS)
    return [(mlp, steep), (cnn, SETTINGS)]


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
    watch = watch or Watch()
    with folders.locked(folder):
        tuning, tuned = _tune(plan, folder, executor, watch)
        entries = plan.entries(tuned)
        runs = plan.runs([entry.setting for entry in entries], plan.seeds)
        by_seed = [run for same_seed in zip(*runs.values(), strict=True) for run in same_seed]
        outcomes = _outcomes(runs, by_seed, folder, executor, watch)
        comparison = _conclude(plan, folder, entries, outcomes, tuning, command)
        results.write(comparison, folder)
    return comparison


def read(folder: Path) -> Comparison:
    """The comparison in a folder; GafError says in one sentence what is wrong."""
    comparison = results.read(folder, Comparison)
    # sentences follow from the record, and may be worded otherwise than when it was written
    return comparison.model_copy(update={"rows": sentences(comparison.rows, comparison.tuning)})


def check_folder(folder: Path, plan: Plan) -> None:
    """Refuse a folder that holds something else."""
    check_place(folder, Comparison.noun, Comparison.file)
    if (folder / Comparison.file).is_file():
        title = read(folder).title
        if title != plan.title:
            raise GafError(f"{folder} holds the comparison of {title}; choose another folder")


def _outcomes(
    runs: Mapping[str, Sequence[RunConfig]],
    order: Sequence[RunConfig],
    folder: Path,
    executor: Executor,
    watch: Watch,
) -> dict[str, list[Outcome]]:
    """Train in this order; what came of the runs, by the name of the setting."""
    watch.settings({digest(run): name for name, several in runs.items() for run in several})
    outcomes = run_grid(order, folder / RUNS, executor, watch)
    return {name: [outcomes[digest(run)] for run in several] for name, several in runs.items()}


def _tune(
    plan: Plan, folder: Path, executor: Executor, watch: Watch
) -> tuple[Tuning | None, RunConfig | None]:
    """The learning rate that did best on the tuning seeds; of equally good ones that nearest to the given."""
    if TUNED not in plan.settings:
        return None, None
    baseline, rate = make(plan.base, BASELINE), plan.base.optimizer.lr
    settings = [at_rate(baseline, rate * factor) for factor in FACTORS]
    runs = plan.runs(settings, TUNING_SEEDS)
    order = [run for several in runs.values() for run in several]
    outcomes = _outcomes(runs, order, folder, executor, watch)
    tried: dict[float, float | None] = {}
    higher_is_better = True
    for setting in settings:
        ended = [outcome.result for outcome in outcomes[setting.name] if outcome.result]
        higher_is_better = ended[0].higher_is_better if ended else higher_is_better
        tried[setting.factor] = mean([result.score for result in ended]) if ended else None
    best = _best(tried, higher_is_better)
    tuning = Tuning(
        seeds=TUNING_SEEDS,
        tried={f"x{factor:g}": score for factor, score in tried.items()},
        chosen=f"x{best:g}",
    )
    return tuning, next(s.config for s in settings if s.factor == best)


def _best(tried: Mapping[float, float | None], higher_is_better: bool) -> float:
    """The factor with the best score."""
    scores = {factor: score for factor, score in tried.items() if score is not None}
    if not scores:
        return 1.0
    best = max(scores.values()) if higher_is_better else min(scores.values())
    good = [factor for factor, score in scores.items() if score == best]
    return min(good, key=lambda factor: abs(math.log(factor)))


def _conclude(
    plan: Plan,
    folder: Path,
    entries: Sequence[Entry],
    outcomes: Mapping[str, Sequence[Outcome]],
    tuning: Tuning | None,
    command: Sequence[str],
) -> Comparison:
    baseline = outcomes[BASELINE]
    first = next((outcome.result for outcome in baseline if outcome.result), None)
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
            for name, several in outcomes.items()
            for seed, outcome in zip(plan.seeds, several, strict=True)
        ),
        tuning=tuning,
        command=tuple(command),
        environment=machine(first.folder),
        created=results.now(),
    )


def _reference(folder: Path, name: str, seed: int, outcome: Outcome) -> RunRef:
    result = outcome.result
    return RunRef(
        setting=name,
        seed=seed,
        folder=outcome.folder.relative_to(folder).as_posix(),
        status="failed" if result is None else "diverged" if result.diverged else "finished",
        score=outcome.score,
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
