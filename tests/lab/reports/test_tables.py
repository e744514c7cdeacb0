"""The table in each of its forms: what it holds, and that names cannot break it."""

import csv
import io
import math
import re
import shutil
import subprocess

import pytest
from rich.console import Console

from gaf.lab.reports import tables
from gaf.lab.reports.comparison_table import columns, comparison_table
from gaf.lab.study.results import Comparison
from tests.lab.reports.example import BASELINE, ORDINARY, Setting, comparison_of

BELOW = {
    BASELINE: Setting("baseline", (2.0, 2.1, math.inf)),
    "f": Setting("function", (1.0, 1.2, 1.1), activation="tanh(0.1, 20)"),
}
NASTY = "a|b_$x$ & [c] <b>\n\x1b[31m\\end{tabular}"


def shown(comparison: Comparison, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(tables.TerminalTable(comparison_table(comparison)))
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def ordinary():
    return comparison_of(ORDINARY)


def test_a_row_says_what_was_found(ordinary):
    cells = {
        column.title: column.entry(ordinary.row("arctan(0.1, 20)@momentum"))
        for column in columns(ordinary)
    }
    assert cells["top1"] == "0.9762 ± 0.0123"
    assert re.fullmatch(r"\+0\.0208 \[\+0\.0154, \+0\.0262\]", cells["vs baseline"])
    assert cells["vs control"].startswith("+0.0052 [−0.00")
    assert cells["p vs baseline"] == "0.022"
    assert cells["verdict"] == "better"


def test_divergence_and_failure_are_results(ordinary):
    _, score, *_ = columns(ordinary)
    assert score.entry(ordinary.row("lr x100")) == "0.0000 ± 0.0000 (3 of 3 diverged)"
    assert score.entry(ordinary.row("broken")) == "0.9100 (2 of 3 failed)"
    steps = next(column for column in columns(ordinary) if column.title == "steps to baseline")
    assert steps.entry(ordinary.row("adam")) == "never"


def test_scores_at_the_end_alone_give_no_steps_to_the_baseline(ordinary):
    """A script reports once: when it was as good as the baseline is not known."""
    rows = [
        row.model_copy(update={"reached": 0, "steps_to_baseline": None}) for row in ordinary.rows
    ]
    table = columns(ordinary.model_copy(update={"rows": tuple(rows)}))
    assert "steps to baseline" not in [column.title for column in table]


def test_columns_without_a_figure_are_left_out():
    alone = comparison_of({BASELINE: ORDINARY[BASELINE]})
    assert [column.title for column in columns(alone)] == ["setting", "top1", "gap", "time a step"]
    pair = comparison_of({BASELINE: ORDINARY[BASELINE], "adam": ORDINARY["adam"]})
    assert "vs control" not in [column.title for column in columns(pair)]


def test_a_score_that_is_infinite():
    text = tables.markdown(comparison_table(comparison_of(BELOW, higher_is_better=False)))
    assert "| baseline | ∞ " in text
    assert "nan" not in text.lower()


def test_csv_has_every_figure_in_full(ordinary):
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(comparison_table(ordinary)))))
    assert len(rows) == len(ordinary.rows)
    for line, row in zip(rows, ordinary.rows, strict=True):
        assert line["setting"] == row.setting
        assert float(line["mean"]) == row.mean
        for seed, score in zip(ordinary.seeds, row.scores, strict=True):
            assert line[f"seed_{seed}"] == ("" if score is None else repr(score))
        if row.vs_control:
            assert float(line["vs_control_low"]) == row.vs_control.low
    assert rows[0]["vs_baseline_mean"] == ""


def test_names_stay_in_their_cells():
    found = comparison_of({BASELINE: ORDINARY[BASELINE], NASTY: ORDINARY["adam"]})
    markdown = tables.markdown(comparison_table(found)).splitlines()
    assert len(markdown) == 4
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in markdown}
    assert len(bars) == 1
    assert "<b>" not in "".join(markdown).replace("\\<b\\>", "")
    latex = tables.latex(comparison_table(found))
    assert latex.count(r"\end{tabular}") == 1
    assert {
        len(re.findall(r"(?<!\\)&", line)) for line in latex.splitlines() if line.endswith(r"\\")
    } == {7}
    assert len(list(csv.reader(io.StringIO(tables.as_csv(comparison_table(found)))))) == 3
    assert "\x1b" not in shown(found, 150)


def test_in_a_notebook_the_text_is_returned_and_not_shown(ordinary, monkeypatch):
    expected = repr(comparison_table(ordinary))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert repr(comparison_table(ordinary)) == expected
    assert "verdict" in expected


def test_markup_of_rich_is_text():
    found = comparison_of(
        {BASELINE: ORDINARY[BASELINE], "[red]x[/red]": ORDINARY["adam"]}, title="[b]t"
    )
    assert "[red]x[/red]" in shown(found, 150)
    assert "[b]t" in shown(found, 150)


@pytest.mark.parametrize("width", [40, 80, 100, 120, 200])
def test_a_terminal_is_not_overrun_and_the_verdict_stays(ordinary, width):
    lines = shown(ordinary, width).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "better" in text
    assert ("Not shown: gap" in text) == (width < 200)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(ordinary, tmp_path):
    body = tables.latex(comparison_table(ordinary))
    (tmp_path / "t.tex").write_text(
        f"\\documentclass{{article}}\\begin{{document}}{body}\\end{{document}}"
    )
    subprocess.run(["pdflatex", "-interaction=batchmode", "t.tex"], cwd=tmp_path, check=True)
