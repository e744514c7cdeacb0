"""What a command trains: a recipe, a task of the user's own, or that task in the place of a recipe's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaf.errors import GafError

if TYPE_CHECKING:
    from gaf.experiments.engine.config import RunConfig

OWN_TASK = {"epochs": 10, "optimizer": {"lr": 0.05, "momentum": 0.9}}  # where no recipe is named


def trained(name: str | None, task: str | None) -> RunConfig:
    """The config of a recipe, of ``my_module:make_task`` with plain settings, or of both together."""
    from gaf.experiments import recipes
    from gaf.experiments.engine.config import read

    if task is None:
        return recipes.get(name or "")
    import_task(task)
    own = task.replace(":", "-")  # two modules may each have a make_task
    if name is None:
        return read({"name": own, **OWN_TASK, "task": {"kind": task}})
    # not under the recipe's name: its folder is for the recipe's own task
    data = recipes.get(name).model_dump(mode="json")
    return read({**data, "name": f"{own}-{name}", "task": {"kind": task}})


def import_task(task: str) -> None:
    """Import a task before a config is read: it may register functions that the config names."""
    from gaf.experiments.tasks.load import import_maker

    module, colon, function = task.partition(":")
    if not (module and colon and function):
        raise GafError(f"--task {task!r} is not MODULE:FUNCTION")
    import_maker(task)
