"""The command line of ``gaf train``."""

from __future__ import annotations

import json
import os
import shlex
import signal
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.cli.trainings import NAME, RULE, Changes, check_rule_named, trained_in

if TYPE_CHECKING:
    from gaf.lab.engine.config import RunConfig
    from gaf.lab.engine.folder import Result


def train(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar=NAME,
            help="What to train: a recipe, see --list, or a task of your own, from this folder.",
            show_default=False,
        ),
    ] = None,
    changes: Changes = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the run; unset: runs/NAME-seedN."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set seed=N.")] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A task of your own in the place of the recipe's, or that of the run to --resume.",
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Resume the run in a folder.")
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="List the recipes, or those that begin with NAME.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Train a recipe, a task of your own, or resume a run.

    A run is a folder. It can be stopped or killed at any time: the same command, or
    --resume FOLDER, resumes where it was and ends with the same weights.

    The score is that on the test data. With --set task.validation=0.2 a fifth of the training data
    is kept out of the training; with --set task.score_on=validation as well the score is that on
    this part, and the test data is not opened.

    Example: gaf train digits-cnn-sgdm --set optimizer.lr=0.1 --seed 1
    """
    if show_list:
        return _list(name, as_json)
    config = _config(name, changes or [], seed, task, resume, out)
    folder = resume or out or Path("runs") / f"{config.name}-seed{config.seed}"
    return _train(config, folder, as_json)


def _list(within: str | None, as_json: bool) -> int:
    """The recipes that begin so; without a name the plain ones, with the number of their variants."""
    from gaf.lab.study import recipes

    chosen = [name for name in recipes.names() if name.startswith(within or "")]
    if not chosen:
        raise GafError(f"no recipe begins with {within!r}; gaf train --list shows where they begin")
    if as_json:
        print(json.dumps(chosen))
        return 0
    for heading, group in recipes.groups().items():
        shown = [recipe for recipe in group if recipe.name in chosen]
        if shown:
            terminal.show(heading)
        members = Counter(recipe.base for recipe in shown)
        for recipe in shown:
            if within is not None:
                terminal.show(f"    {recipe.name}")
            elif recipe.name == recipe.base:
                variants = members[recipe.base] - 1
                more = f" and {variants} variants" if variants else ""
                terminal.show(f"    {recipe.name:<40}{more}".rstrip())
    if within is None:
        terminal.show(
            "\nVariants (functions, clipping, controls) of one: gaf train --list digits-cnn-sgdm"
        )
    return 0


def _config(
    name: str | None,
    changes: list[str],
    seed: int | None,
    task: str | None,
    resume: Path | None,
    out: Path | None,
) -> RunConfig:
    """The config that the arguments ask for."""
    from gaf.lab.engine.config import override
    from gaf.lab.study.recipes import trained

    if resume is not None:
        if name is not None or seed is not None or out is not None:
            raise GafError(
                "--resume continues the run in the folder: give no name, --seed or --out"
            )
        config = trained_in(resume, task)
        check_rule_named(resume, config, changes)
        return override(config, changes)
    if name is None and task is None:
        raise GafError("name a recipe (gaf train --list) or a task of your own, or use --resume")
    config = trained(name, task)
    return override(config, changes if seed is None else [*changes, f"seed={seed}"])


def _train(config: RunConfig, folder: Path, as_json: bool) -> int:
    from gaf.common.files import plain
    from gaf.lab.engine import run
    from gaf.lab.engine.folder import FINISHED
    from gaf.lab.engine.progress import ConsoleProgress
    from gaf.lab.engine.signals import Interrupted

    warnings.showwarning = terminal.warn
    before = (folder / FINISHED).is_file()
    if not before and _first() and (line := _subset(config)):
        terminal.say(line)
    try:
        result = run.train(config, folder, progress=ConsoleProgress(terminal.stderr()))
    except Interrupted as stopped:
        if _first():
            own = f" --task {shlex.quote(config.task.kind)}" if config.task.own else ""
            if config.optimizer.imported:
                own += f" --set {RULE}={shlex.quote(config.optimizer.name)}"
            terminal.say(
                f"stopped at step {stopped.step}; resume with: "
                f"gaf train --resume {shlex.quote(str(folder))}{own}"
            )
        return 128 + stopped.number
    except KeyboardInterrupt:  # a second Ctrl-C, or one before the training had begun
        return 128 + signal.SIGINT
    except run.DiskFull as full:
        terminal.say(str(full))
        return 1
    except OSError as error:
        place = Path(error.filename) if isinstance(error.filename, str) else None
        if place is None or not (place.is_relative_to(folder) or folder.is_relative_to(place)):
            raise
        raise GafError(f"{error.filename} cannot be written: {error.strerror}") from None
    if _first():
        if before:
            terminal.say("this run was finished before; nothing was trained")
        content = plain({**dict(result), "folder": str(result.folder)})
        terminal.show(json.dumps(content) if as_json else _sentence(result, config))
    return 0


def _subset(config: RunConfig) -> str:
    """A line where a subset is trained on in the place of the dataset that the config names."""
    from gaf.lab import data

    if config.task.own or not config.task.data:
        return ""
    root: Any = config.task.data_options.get("root")
    try:
        return data.stand_in(config.task.data, root)
    except data.DataError:
        return ""  # the training will say so


def _sentence(result: Result, config: RunConfig) -> str:
    if result.diverged:
        return f"{result.name}: diverged at step {result.steps}, in {result.folder}"
    from gaf.lab.engine.folder import summary

    return (
        f"{result.name}: {summary(result.final, config.task.score_on)} after {result.steps} steps of "
        f"{result.seconds_per_step:.3g} s, in {result.folder}"
    )


def _first() -> bool:
    """Whether this is the first of several processes, or the only one."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "NODE_RANK"))
