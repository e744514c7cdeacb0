"""All recipes by name, in the order of the tables."""

from __future__ import annotations

from functools import cache

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.lab.engine.config import RunConfig
from gaf.lab.study.recipes.beyond import beyond_recipes
from gaf.lab.study.recipes.laptop import laptop_recipes
from gaf.lab.study.recipes.tables import Recipe, table_recipes
from gaf.lab.study.recipes.voc import voc_recipes

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
    """The names of all recipes."""
    return list(_recipes())


def recipe(name: str) -> Recipe:
    """A recipe with what is known about it: its group, the paper's cell, whether it is a control."""
    name = SHORT.get(name, name)
    if name not in _recipes():
        raise GafError(f"unknown recipe {name!r}{_hint(name)}")
    return _recipes()[name]


def groups() -> dict[str, list[Recipe]]:
    """The recipes under the headings of a list."""
    found: dict[str, list[Recipe]] = {}
    for each in _recipes().values():
        found.setdefault(each.group, []).append(each)
    return found


def _hint(name: str) -> str:
    words = set(name.split("-"))
    for each in _recipes():  # the same words in another order
        if words <= set(each.split("-")):
            return f"; did you mean {each!r}?"
    hint = did_you_mean(name, _recipes())
    if hint.startswith("; did you mean"):
        return hint
    return "; gaf train --list shows them all"  # hundreds of names are no hint


@cache
def _recipes() -> dict[str, Recipe]:
    every = (*laptop_recipes(), *beyond_recipes(), *table_recipes(), *voc_recipes())
    return {each.name: each for each in every}
