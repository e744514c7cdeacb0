"""docs/reports.md tells the truth: its Python runs, and docs/compare.md says what the columns mean."""

import runpy
import types
from pathlib import Path

import pytest

from gaf.reports.columns import columns
from tests.reports.example import ORDINARY, comparison_of

ROOT = Path(__file__).resolve().parents[2]
CHECK = types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "check.py")))
PAGE = ROOT / "docs" / "reports.md"
COLUMNS = ROOT / "docs" / "compare.md"


@pytest.mark.slow
def test_blocks_run():
    for first_line, code in CHECK.python_blocks(PAGE.read_text("utf-8")):
        exec(CHECK.compile_block(code, first_line, PAGE), {})


def test_columns_are_named():
    text = COLUMNS.read_text("utf-8").partition("## What the columns mean")[2].partition("\n## ")[0]
    for column in columns(comparison_of(ORDINARY))[2:]:
        assert column.title.removeprefix("p ") in text, column.title
