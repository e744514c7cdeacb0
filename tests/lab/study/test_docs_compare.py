"""docs/compare.md tells the truth: its settings and recipes exist (docs/blocks.py runs its Python)."""

import re
from pathlib import Path

from gaf.lab.study import recipes
from gaf.lab.study.compare import FACTORS, SETTINGS, TUNING_SEEDS
from gaf.lab.study.settings import MEMBERS, PRESETS, make, split

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "compare.md"
TEXT = PAGE.read_text("utf-8")


def test_settings_and_recipes_exist():
    table = TEXT.partition("| name | |")[2].partition("\n\n")[0]
    names = [
        name for row in table.split("\n")[1:] for name in re.findall("`(.+?)`", row.split("|")[1])
    ]
    assert len(names) >= 15
    base = recipes.get("digits-cnn-sgdm")
    for name in names:
        assert name in (PRESETS, MEMBERS) or make(base, name)
    for given in re.findall('--settings "(.+?)"', TEXT):
        assert split([given])
    for recipe in re.findall(r"gaf compare ([a-z0-9-]+)\s", TEXT):
        assert recipe in recipes.names()


def test_the_defaults_are_those_of_the_code():
    assert f"`{', '.join(SETTINGS)}`" in TEXT
    *first, last = (f"{factor:g}" for factor in FACTORS)
    assert f"times {', '.join(first)} and {last} on two seeds" in TEXT
    assert len(TUNING_SEEDS) == 2
