"""docs/compare.md says what the columns mean."""

from pathlib import Path

from gaf.lab.reports.comparison_table import columns
from tests.lab.reports.example import ORDINARY, comparison_of
from tests.lab.reports.tuned import tuned_comparison

ROOT = Path(__file__).resolve().parents[3]
COLUMNS = ROOT / "docs" / "compare.md"


def test_columns_are_named():
    text = COLUMNS.read_text("utf-8").partition("## What the columns mean")[2].partition("\n## ")[0]
    tuned = tuned_comparison(earlier=(7,))
    shown = [*columns(comparison_of(ORDINARY))[2:], *columns(tuned)[1:]]
    for column in shown:
        if column.title != tuned.score_name:
            assert column.title.removeprefix("p ") in text, column.title
