"""A training by name: a recipe, a task of the user's own, that task in a recipe's place, or a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gaf.common.errors import GafError

if TYPE_CHECKING:
    from gaf.lab.engine.config import RunConfig

OWN_TASK = {"epochs": 10, "optimizer": {"lr": 0.05, "momentum": 0.9}}  # where no recipe is named


def trained(
    name: str | None,
    task: str | None = None,
    *,
    arguments: Sequence[str] = (),
    launch: str = "",
) -> RunConfig:
    """The config of a recipe, of ``my_module:make_task`` with plain settings, of both together, of a script.

    ``arguments`` and ``launch`` are a script's: see :func:`gaf.lab.engine.script.script_config`.
    """
    from gaf.lab.engine.config import read
    from gaf.lab.study import recipes

    if name is not None and name.endswith(".py"):
        if task is not None:
            raise GafError(f"{name} is a script: give it alone")
        from gaf.lab.engine.script import script_config

        return script_config(name, arguments, launch)
    if arguments or launch:
        raise GafError(f"arguments and --launch are for a script, and {name} is not one")
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
