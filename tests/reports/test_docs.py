"""docs/reports.md tells the truth: its Python runs, and its table names the columns there are."""

import runpy
import types
from pathlib import Path

import pytest

from gaf.reports.columns import columns
from tests.reports.example import ORDINARY, comparison_of

ROOT = Path(__file__).resolve().parents[2]
CHECK = types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "check.py")))
PAGE = ROOT / "docs" / "reports.md"


@pytest.mark.slow
def test_blocks_run():
    for first_line, code in CHECK.python_blocks(PAGE.read_text("utf-8")):
        exec(CHECK.compile_block(code, first_line, PAGE), {})


def test_columns_are_named():
    text = PAGE.read_text("utf-8")
    for column in columns(comparison_of(ORDINARY))[2:]:
        assert column.title.removeprefix("p ") in text, column.title
