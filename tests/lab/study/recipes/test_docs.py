"""docs/recipes.md tells the truth: the recipes it names exist."""

import re
from pathlib import Path

from gaf.lab.study import recipes

ROOT = Path(__file__).resolve().parents[4]


def test_named_recipes_exist():
    text = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    named = re.findall(r"gaf train ([a-z0-9][a-z0-9.@+-]+)", text)
    assert len(named) >= 4
    assert set(named) <= set(recipes.names())
