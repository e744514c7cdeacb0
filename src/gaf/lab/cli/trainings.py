"""What commands that train share: their options, and the training of a run folder."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaf.common.errors import GafError

if TYPE_CHECKING:
    from gaf.lab.engine.config import RunConfig

SEEDS, WORKERS = 1000, 1024  # at most: all runs are planned at once, and each worker is a process
RULE = "optimizer.name"
NAME = "RECIPE or MODULE:FUNCTION"  # the first argument of a command that trains
# options that commands share
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the config; may repeat."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=WORKERS, help="Runs at once; unset: as many as the machine holds."),
]
ScriptArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- ARGUMENTS",
        help="Arguments of the script, after two dashes.",
        show_default=False,
    ),
]
Launch = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help="What starts the script, such as 'torchrun --nproc-per-node 2'; unset: Python.",
    ),
]

Place = Literal["here", "ray"]  # what trains
On = Annotated[Place, typer.Option(help="here: processes of this machine; ray: a Ray cluster.")]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Address of the Ray cluster; unset: this machine's.",
        show_default=False,
    ),
]


def check_place(on: Place, address: str | None, workers: int | None) -> None:
    """Refuse what belongs to the other place."""
    if address and on == "here":
        raise GafError("--address is for --on ray")
    if workers and on == "ray":
        raise GafError("--workers is for this machine; a cluster's nodes say what they hold")


def executor(
    config: RunConfig, runs: Path, on: Place, address: str | None, workers: int | None
) -> AbstractContextManager[Any]:
    """What trains runs like that of a config, in a folder."""
    if on == "ray":
        from gaf.lab.study.ray_grid import RayGrid

        return RayGrid(runs, address)
    from gaf.lab.study.pool import local_pool

    return local_pool(config, runs, workers)


def trained_in(folder: Path, task: str | None) -> RunConfig:
    """The config of the run in a folder; a task of the user's own is what they name, never what it says.

    A folder may come from elsewhere: its text must not choose what is imported and called, nor stand in a
    command that could be copied.
    """
    from gaf.lab.engine.folder import read_config
    from gaf.lab.study.recipes import import_task

    if task is not None:
        import_task(task)
    config = read_config(folder)
    if not config.task.own or config.task.kind == task:
        return config
    if config.task.is_script:
        raise GafError(f"the run in {folder} is one of a script: gaf compare SCRIPT resumes it")
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
