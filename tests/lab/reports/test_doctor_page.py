"""What a diagnosis shows: the page, the table and the figure; names are text."""

from __future__ import annotations

import io

from rich.console import Console

from gaf.lab.engine.doctor import Diagnosis, Watched
from gaf.lab.reports.doctor_page import COLUMNS, headline, plot, render, rows_of, table

NAME = "<script>alert(1)</script>.weight"


def watched(zeros=0):
    records = [
        {
            **{"step": s, "group": 0, "name": name, "dtype": "float32", "shape": [2, 50]},
            **{"elements": 100, "zeros": zeros, "nonfinite": 0, "norm": 0.0 if zeros else float(s)},
            **{"max": float(s), "near_smallest": 0.0, "update_ratio": 1e-3},
        }
        for s in range(1, 31)
        for name in (NAME, "head.bias")
    ]
    clips = [{"step": s, "norm": 20.0, "max_norm": 1.0} for s in range(1, 31)]
    return Watched("SGD", 1, records, clips)


def test_the_page_says_what_was_found():
    page = render(Diagnosis("train.py", 30, [watched()]), ["gaf", "doctor", "train.py"])
    assert "<script>alert" not in page
    assert "1 problem in 30 steps." in page
    assert "it is a learning rate divided by 20." in page
    assert "To try: To clip outliers only, set max_norm to 20" in page
    assert "gaf doctor train.py" in page


def test_headlines_and_failures():
    assert (
        headline(Diagnosis("t", 5, [Watched("SGD", 1, [], [])])) == "Nothing alarming in 5 steps."
    )
    dead = Diagnosis("t", 30, [watched(100), watched()], "RuntimeError: out of data")
    assert headline(dead) == "3 problems in 30 steps."
    page = render(dead)
    assert "RuntimeError: out of data" in page
    assert "SGD, optimizer 2" in page


def test_rows_and_table():
    rows = rows_of(watched())
    assert [len(row) for row in rows] == [len(COLUMNS)] * 2
    assert rows[0] == (NAME, "float32", "100", "16", "30", "0 %", "1.0e-03")
    console = Console(width=200, file=io.StringIO())
    console.print(table(watched()))
    assert "head.bias" in console.file.getvalue()


def test_the_figure(tmp_path):
    plot(watched(), tmp_path / "norms.svg")
    drawn = (tmp_path / "norms.svg").read_text()
    assert drawn.count('<g id="line2d') > 5  # two layers, the norm of all, max_norm, and the axes
