"""docs/training.md tells the truth: its recipes, keys and files exist."""

import re
from pathlib import Path

from gaf.lab.engine.config import keys
from gaf.lab.study import recipes

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "training.md"


def test_every_key_is_explained():
    text = PAGE.read_text("utf-8")
    for key in keys():
        short = key.removeprefix("optimizer.")  # torch's arguments are listed without it
        assert f"`{key}`" in text or f"`{short}`" in text or key == "name", key
    for key in re.findall(r"`((?:task|optimizer|schedule)\.\w+)`", text):
        assert key in keys(), key


def test_named_recipes_exist():
    named = re.findall(r"train ([a-z0-9]+-[a-z0-9.@+-]+)", PAGE.read_text("utf-8"))
    assert len(named) >= 4
    assert set(named) <= set(recipes.names())
