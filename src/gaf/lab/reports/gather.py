"""A comparison of runs that were made one by one: what ``gaf compare`` would have found with them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gaf.common.errors import GafError
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.identity import RunIdentity
from gaf.lab.reports import history
from gaf.lab.study.compare import training
from gaf.lab.study.grid import Outcome, digest, finished
from gaf.lab.study.judge import Entry, Finals, judge
from gaf.lab.study.results import Comparison, RunRef
from gaf.lab.study.settings import Setting, control, kind_of
from gaf.lab.study.words import sentences

Group = dict[int, tuple[RunConfig, Outcome]]  # runs of one setting, by seed


def gather(places: Sequence[Path]) -> tuple[Comparison, Path]:
    """The comparison of finished runs, and the folder that holds them all.

    Runs whose configs differ in the seed alone are one setting. The first setting without a function is the
    baseline, or the first one. A setting that is another one's matched control is taken for it.

    Raises:
        GafError: a folder holds no finished run, or the runs do not belong together; one sentence.
    """
    named = [_run(place) for place in dict.fromkeys(path.resolve() for path in places)]
    _check(named)
    groups: dict[str, Group] = {}
    for config, outcome in named:
        group = groups.setdefault(_key(config), {})
        if config.seed in group:
            other = group[config.seed][1].folder
            raise GafError(f"{other} and {outcome.folder} hold the same run; name one of them")
        group[config.seed] = (config, outcome)
    groups = _baseline_first(groups)
    entries, outcomes, seeds = _table(groups)
    runs = [run for group in groups.values() for run in group.values()]
    first, outcome = runs[0]
    places = [outcome.folder for _, outcome in runs]
    above = _above(places)
    assert outcome.result is not None
    several = len(entries) > 1
    comparison = Comparison(
        title=f"{len(entries)} settings, as trained one by one" if several else first.name,
        task=training(first),
        score_name=outcome.result.score_name,
        higher_is_better=outcome.result.higher_is_better,
        chance=outcome.result.chance,
        seeds=seeds,
        baseline=entries[0].name,
        score_on=first.task.score_on,
        rows=judge(entries, {name: Finals(several) for name, several in outcomes.items()}, seeds),
        runs=tuple(
            RunRef(
                setting=entry.name,
                seed=seed,
                folder=outcome.folder.relative_to(above).as_posix(),
                status="diverged" if outcome.result.diverged else "finished",
                score=outcome.result.score,
            )
            for entry in entries
            for seed, outcome in zip(seeds, outcomes[entry.name], strict=True)
            if outcome.result is not None
        ),
        **_environment(places, above),
    )
    return comparison.model_copy(update={"rows": sentences(comparison)}), above


def _run(place: Path) -> tuple[RunConfig, Outcome]:
    config, outcome = folders.read_config(place), finished(place)
    if outcome is None:
        raise GafError(
            f"the run in {place} is not finished; resume with: gaf train --resume {place}"
        )
    if outcome.result is not None:
        history.read(place, config.seed, outcome.result.score_name)  # a damaged record is told here
    return config, outcome


def _key(config: RunConfig) -> str:
    return digest(config.model_copy(update={"seed": 0}))


def _check(runs: Sequence[tuple[RunConfig, Outcome]]) -> None:
    """Scores of different tasks do not compare, nor do those before and after a change of code or data."""
    (first, compared), *others = runs
    for config, outcome in others:
        if config.task != first.task:
            raise GafError(
                f"{compared.folder} and {outcome.folder} are of different tasks: report them apart"
            )
    identities = {outcome.folder: folders.read_identity(outcome.folder) for _, outcome in runs}
    for (one, before), (other, after) in itertools.combinations(identities.items(), 2):
        if changed := _changed(before, after):
            raise GafError(f"{changed} between {one} and {other}: report them apart")


def _changed(one: RunIdentity | None, other: RunIdentity | None) -> str:
    """What is different in what two runs share; those that recorded neither code nor data are alike."""
    if one is None or other is None:
        return "" if one is other else "the code or the data may have changed"
    return one.difference(other, shared=True)


def _baseline_first(groups: dict[str, Group]) -> dict[str, Group]:
    """The others keep their order."""

    def has_function(key: str) -> bool:
        config = next(iter(groups[key].values()))[0]
        return config.optimizer.activation is not None

    first = next((key for key in groups if not has_function(key)), next(iter(groups)))
    return {first: groups[first], **groups}


def _table(
    groups: dict[str, Group],
) -> tuple[list[Entry], dict[str, list[Outcome]], tuple[int, ...]]:
    seeds = tuple(sorted({seed for group in groups.values() for seed in group}))
    settings: dict[str, Setting] = {}
    for key, group in groups.items():
        config = next(iter(group.values()))[0]
        taken = [setting.name for setting in settings.values()]
        name = config.name if config.name not in taken else f"{config.name} ({key[:6]})"
        kind = kind_of(config.optimizer) if settings else "baseline"
        settings[key] = Setting(name, kind, config)
    controls = {
        key: _key(control(setting).config)
        for key, setting in settings.items()
        if kind_of(setting.config.optimizer) == "function"
    }
    for key in {*controls.values()} & {*settings}:
        if settings[key].kind == "rule":
            settings[key] = replace(settings[key], kind="control")
    entries = [
        Entry(setting, (), settings[controls[key]].name if controls.get(key) in settings else None)
        for key, setting in settings.items()
    ]
    nothing = Outcome(Path(), None)  # no error either: it was not run
    outcomes = {
        settings[key].name: [group[seed][1] if seed in group else nothing for seed in seeds]
        for key, group in groups.items()
    }
    return entries, outcomes, seeds


def _above(places: Sequence[Path]) -> Path:
    """The folder to find all of them from."""
    return places[0] if len(places) == 1 else Path(os.path.commonpath(places))


def _environment(places: Sequence[Path], above: Path) -> dict[str, Any]:
    """What the first run recorded about the machine, and the command of each."""
    recorded = [_recorded(place) for place in places]
    commands = [_command(environment) for environment in recorded]
    first = recorded[0]
    began = str(first.time.get("began", "")) if first else ""
    facts = first.machine() if first else {}
    if len(places) == 1:
        return {"command": tuple(commands[0]), "created": began, "environment": facts}
    names = [place.relative_to(above).as_posix() for place in places]
    return {
        "command": ("gaf", "report", *names),
        "created": began,
        "environment": {**facts, "trained by": dict(zip(names, commands, strict=True))},
    }


def _recorded(place: Path) -> folders.Environment | None:
    """A run's environment; None where that is not there or not readable."""
    try:
        return folders.read_environment(place)
    except GafError:
        return None


def _command(recorded: folders.Environment | None) -> list[str]:
    """The command of a run, without the place of the program: that is nobody's business."""
    if recorded is None or not recorded.command:
        return []
    program, *rest = recorded.command
    return [Path(program).name, *rest]
