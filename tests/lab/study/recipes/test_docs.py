"""docs/recipes.md and docs/beyond-vision.md tell the truth: the recipes they name exist."""

import re
from pathlib import Path

from gaf.lab.study import recipes

ROOT = Path(__file__).resolve().parents[4]


def test_named_recipes_exist():
    text = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    named = re.findall(r"gaf train ([a-z0-9][a-z0-9.@+-]+)", text)
    assert len(named) >= 4
    assert set(named) <= set(recipes.names())


def test_recipes_beyond_vision_exist():
    page = (ROOT / "docs" / "beyond-vision.md").read_text("utf-8")
    named = re.findall(r"`((?:text|cartpole)-[a-z-]+)`", page)
    named += re.findall(r"gaf (?:train|compare|tune) ([a-z][a-z-]+)", page)
    assert len(set(named)) >= 4
    assert set(named) <= set(recipes.names())
