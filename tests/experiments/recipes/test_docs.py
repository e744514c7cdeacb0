"""docs/recipes.md and docs/models.md tell the truth: their Python runs, and the recipes they name exist."""

import re
import runpy
import types
from pathlib import Path

import pytest

from gaf.experiments import recipes

ROOT = Path(__file__).resolve().parents[3]
CHECK = types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "check.py")))


@pytest.mark.parametrize("name", ["models.md", "recipes.md"])
def test_blocks_run(name):
    page = ROOT / "docs" / name
    module: dict = {}
    for first_line, code in CHECK.python_blocks(page.read_text("utf-8")):
        exec(CHECK.compile_block(code, first_line, page), module)


def test_named_recipes_exist():
    text = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    named = re.findall(r"gaf train ([a-z0-9][a-z0-9.@+-]+)", text)
    assert len(named) >= 4
    assert set(named) <= set(recipes.names())
