"""The trainings of the paper's Tables I to IV, and small ones, as functions returning a config.

A name is typed in a shell: ``cifar100-resnet50-sgdm`` is a baseline, ``...-arctan-0.1-20@momentum`` has f at
a placement, ``...+control`` is its matched control, ``small-...`` the counterpart for a laptop. In the place
of a recipe's name may stand a task of the user's own or a script: :func:`trained`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean, near_names
from gaf.lab.engine.config import RunConfig, read
from gaf.lab.engine.script import script_config
from gaf.lab.study.recipes.base import Recipe
from gaf.lab.study.recipes.laptop import laptop_recipes
from gaf.lab.study.recipes.tables import table_recipes
from gaf.lab.tasks import import_maker

__all__ = ["Recipe", "get", "groups", "import_task", "names", "recipe", "trained"]

# Short names of recipes, for the command line; a run is named by the recipe.
SHORT = {"ssd300-voc-small": "small-voc-ssd300-sgdm"}
OWN_TASK = {"epochs": 10, "optimizer": {"lr": 0.05, "momentum": 0.9}}  # where no recipe is named


def get(name: str) -> RunConfig:
    """The config of a recipe.

    Example:
        >>> get("cifar100-resnet50-sgdm-arctan-0.1-20@momentum").optimizer.activation
        'arctan(0.1, 20)'
    """
    return recipe(name).config


def names() -> list[str]:
    """The names of all recipes, in the order of the tables."""
    return list(_recipes())


def recipe(name: str) -> Recipe:
    """A recipe with what is known about it: its group, the paper's cell, whether it is a control."""
    name = SHORT.get(name, name)
    known = _laptop() if name in _laptop() else _recipes()
    if name not in known:
        raise GafError(f"unknown recipe {name!r}{_hint(name)}")
    return known[name]


def groups() -> dict[str, list[Recipe]]:
    """The recipes under the headings of a list."""
    headings: dict[str, list[Recipe]] = {}
    for entry in _recipes().values():
        headings.setdefault(entry.group, []).append(entry)
    return headings


def _hint(name: str) -> str:
    words = set(name.split("-"))
    for known in _recipes():  # the same words in another order
        if words <= set(known.split("-")):
            return f"; did you mean {known!r}?"
    if near_names(name, _recipes()):
        return did_you_mean(name, _recipes())
    return "; gaf train --list shows them all"  # hundreds of names are no hint


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
    if name is not None and name.endswith(".py"):
        if task is not None:
            raise GafError(f"{name} is a script: give it alone")
        return script_config(name, arguments, launch)
    if arguments or launch:
        raise GafError(f"arguments and --launch are for a script, and {name} is not one")
    if task is not None:
        import_task(task)
    if name is None:
        name, task = task or "", None
    if ":" not in name:
        config = get(name)
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
    module, colon, function = task.partition(":")
    if not (module and colon and function):
        raise GafError(f"the task {task!r} is not MODULE:FUNCTION")
    import_maker(task)


@cache
def _laptop() -> dict[str, Recipe]:
    return {entry.name: entry for entry in laptop_recipes()}


@cache
def _recipes() -> dict[str, Recipe]:
    return {**_laptop(), **{entry.name: entry for entry in table_recipes()}}
