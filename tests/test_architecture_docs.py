"""docs/architecture.md: its picture is that of the sources, and what it names exists."""

import runpy
import types
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests import test_architecture as guard

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
DRAW, CHECK = (
    types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / name)))
    for name in ("architecture.py", "check.py")
)


def test_the_picture_is_that_of_the_sources():
    assert DRAW.PICTURE.read_text("utf-8") == DRAW.drawing(), "run python docs/architecture.py"


def test_the_picture_has_every_folder_and_every_import_left_of_the_diagonal():
    picture = ElementTree.fromstring(DRAW.drawing())
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    rooms = (*guard.LIBRARY, *(f"lab.{folder}" for folder in guard.LAB))
    assert tuple(DRAW.FOLDERS) == rooms
    assert all(texts.count(room) == 2 for room in rooms)
    dots = sum(element.tag.endswith("circle") for element in picture.iter())
    pairs = DRAW.imports()
    assert ("optim", "functions") in pairs
    assert dots == len(pairs)  # one that went up would not be drawn


def test_what_the_page_names_exists():
    assert list(CHECK.complaints(PAGE)) == []


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("gaf.optim.sgdm", "optim/__init__.py has no sgdm"),
        ("gaf.lab.engine.run.practise", "engine/run.py has no practise"),
        ("gaf.lab.bench.timing.SHORT", "bench/timing.py has no SHORT"),
        ("gaf.common.files.Hashing.open", "common/files.py has no open"),
    ],
)
def test_a_name_that_is_gone_is_reported(name, lacks):
    assert lacks in CHECK.name_problem(name)


def test_a_way_has_three_steps_at_most():
    table = PAGE.read_text("utf-8").partition("| you call |")[2].partition("## ")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines()[2:] if line]
    assert len(rows) >= 8
    for _, *steps in rows:
        assert 1 <= sum("`gaf." in step for step in steps) <= 3
