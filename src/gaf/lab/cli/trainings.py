"""What a command trains: a recipe, a task of the user's own, or that task in the place of a recipe's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaf.common.errors import GafError

if TYPE_CHECKING:
    from gaf.lab.engine.config import RunConfig

SEEDS, WORKERS = 1000, 1024  # at most: all runs are planned at once, and each worker is a process
RULE = "optimizer.name"
NAME = "[RECIPE or MODULE:FUNCTION]"  # the first argument of a command that trains
# options that commands share
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the config; may repeat."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=WORKERS, help="Runs at once; unset: as many as the machine holds."),
]
OWN_TASK = {"epochs": 10, "optimizer": {"lr": 0.05, "momentum": 0.9}}  # where no recipe is named


def trained(name: str | None, task: str | None = None) -> RunConfig:
    """The config of a recipe, of ``my_module:make_task`` with plain settings, or of both together."""
    from gaf.lab.engine.config import read
    from gaf.lab.study import recipes

    if task is not None:
        import_task(task)
    if name is None:
        name, task = task or "", None
    if ":" not in name:
        config = recipes.get(name)
        if task is None:
            return config
        # not under the recipe's name: its folder is for the recipe's own task
        own = f"{_name(task)}-{name}"
        return read({**config.model_dump(mode="json"), "name": own, "task": {"kind": task}})
    if task is not None:
        raise GafError(f"{name} is a task: give it alone, or a recipe's name with --task")
    import_task(name)
    return read({"name": _name(name), **OWN_TASK, "task": {"kind": name}})


def _name(task: str) -> str:
    """Of a task of the user's own: with its module, since two may each have a make_task."""
    return task.replace(":", "-")


def import_task(task: str) -> None:
    """Import a task before a config is read: it may register functions that the config names."""
    from gaf.lab.tasks import import_maker

    module, colon, function = task.partition(":")
    if not (module and colon and function):
        raise GafError(f"the task {task!r} is not MODULE:FUNCTION")
    import_maker(task)


def trained_in(folder: Path, task: str | None) -> RunConfig:
    """The config of the run in a folder; a task of the user's own is what they name, never what it says.

    A folder may come from elsewhere: its text must not choose what is imported and called, nor stand in a
    command that could be copied.
    """
    from gaf.lab.engine.folder import read_config

    if task is not None:
        import_task(task)
    config = read_config(folder)
    if not config.task.own or config.task.kind == task:
        return config
    if config.task.is_script:
        raise GafError(
            f"the run in {folder} is one of a script: gaf compare SCRIPT goes on with it"
        )
    if task is None:
        raise GafError(
            f"the run in {folder} trained a task of your own: name it as you did then, "
            "with --task MODULE:FUNCTION"
        )
    raise GafError(
        f"the run in {folder} trained another task than {task}; its config says {config.task.kind[:80]!r}"
    )


def check_rule_named(folder: Path, config: RunConfig, changes: list[str]) -> None:
    """Refuse to import the optimizer of a run's config, unless the user names one again: as with tasks."""
    named = any(change.partition("=")[0].strip() == RULE for change in changes)
    if config.optimizer.imported and not named:
        raise GafError(
            f"the run in {folder} trained with an optimizer of another package: name it as you did then, "
            f"with --set {RULE}=MODULE:CLASS"
        )
