"""docs/detection.md tells the truth: the recipes it names exist, its picture is there."""

import re
from pathlib import Path

from PIL import Image

from gaf.lab.study import recipes

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "detection.md"


def test_named_recipes_exist():
    named = re.findall(r"gaf train ([a-z0-9]+-[a-z0-9.@+-]+)", PAGE.read_text("utf-8"))
    assert len(named) >= 3
    for name in named:
        recipes.get(name)


def test_the_picture_is_there_and_small():
    path = ROOT / "docs" / "images" / "detection.jpg"
    assert path.stat().st_size < 100_000
    with Image.open(path) as picture:
        picture.verify()
