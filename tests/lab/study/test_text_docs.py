"""docs/beyond-vision.md names recipes that exist; tests/test_results_docs.py checks its tables."""

import re
from pathlib import Path

from gaf.lab.study import recipes

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "beyond-vision.md").read_text("utf-8")


def test_recipes_exist():
    named = re.findall(r"`((?:text|cartpole)-[a-z-]+)`", PAGE)
    named += re.findall(r"gaf (?:train|compare|tune) ([a-z][a-z-]+)", PAGE)
    assert len(set(named)) >= 4
    assert set(named) <= set(recipes.names())
