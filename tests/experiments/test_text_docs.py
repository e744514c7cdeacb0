"""docs/beyond-vision.md tells the truth: its tables are the comparisons in results/, its recipes exist."""

import re
from pathlib import Path

import pytest

from gaf.experiments import comparison, recipes

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "beyond-vision.md").read_text("utf-8")


def number(value, digits, sign=""):
    return f"{value:{sign}.{digits}f}".replace("-", "−")


def told(difference, digits):
    if difference is None:
        return ""
    mean, low, high = (
        number(x, digits, "+") for x in (difference.mean, difference.low, difference.high)
    )
    return f"{mean} [{low}, {high}], {difference.verdict}"


@pytest.mark.parametrize(("folder", "digits"), [("text", 3), ("cartpole", 0)])
def test_every_row_is_that_of_the_comparison(folder, digits):
    found = comparison.read(ROOT / "results" / folder)
    assert len(found.seeds) >= 5
    for row in found.rows:
        cells = [
            ", ".join(f"`{name}`" for name in (row.setting, *row.also)),
            number(row.mean, digits),
            number(row.std, digits),
            told(row.vs_baseline, digits),
            told(row.vs_control, digits),
        ]
        assert f"| {' | '.join(cells)} |" in PAGE, row.setting


def test_recipes_exist():
    named = re.findall(r"`((?:text|cartpole)-[a-z-]+)`", PAGE)
    named += re.findall(r"gaf (?:train|compare|tune) ([a-z][a-z-]+)", PAGE)
    assert len(set(named)) >= 4
    assert set(named) <= set(recipes.names())
