"""The trainings of the paper's Tables I to IV, and small ones, as functions returning a config.

A name is typed in a shell: ``cifar100-resnet50-sgdm`` is a baseline, ``...-arctan-0.1-20@momentum`` has f at
a placement, ``...+control`` is its matched control, ``small-...`` the counterpart for a laptop.
"""

from __future__ import annotations

from functools import cache

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean, near_names
from gaf.lab.engine.config import RunConfig
from gaf.lab.study.recipes.base import Recipe
from gaf.lab.study.recipes.laptop import laptop_recipes
from gaf.lab.study.recipes.tables import table_recipes

__all__ = ["Recipe", "get", "groups", "names", "recipe"]

# Short names of recipes, for the command line; a run is named by the recipe.
SHORT = {"ssd300-voc-small": "small-voc-ssd300-sgdm"}


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


@cache
def _laptop() -> dict[str, Recipe]:
    return {entry.name: entry for entry in laptop_recipes()}


@cache
def _recipes() -> dict[str, Recipe]:
    return {**_laptop(), **{entry.name: entry for entry in table_recipes()}}
