"""The page of a tuning and the pages of documentation."""

import json
from pathlib import Path

import pytest

from gaf.lab.engine.config import read
from gaf.lab.reports.page import PAGE
from gaf.lab.reports.tune_page import render, write_page
from gaf.lab.study.compare import read as read_comparison
from gaf.lab.study.results import Tuned
from tests.browser import LARGEST_PAGE, Browser, needs_chromium

ROOT = Path(__file__).resolve().parents[3]
RECORD = json.loads((ROOT / "results" / "tune" / "tune.json").read_text("utf-8"))


def page_of(**changes):
    return render(read({**RECORD, **changes}, Tuned))


def test_it_says_what_was_found():
    page = page_of()
    assert len(page.encode()) <= LARGEST_PAGE
    assert "gaf.SGD(model.parameters(), lr=" in page
    assert "Gradients vanish" in page
    assert 'href="comparison/report.html"' in page
    for each in RECORD["candidates"]:
        assert each["name"] in page


def test_text_from_outside_is_escaped():
    hostile = "<img src=x onerror=alert(1)>"
    page = page_of(title=hostile, task=hostile, verdict=hostile)
    assert hostile not in page
    assert "&lt;img src=x" in page


def test_where_nothing_helps_there_is_no_line_to_copy():
    assert "gaf.SGD(model.parameters()" not in page_of(helps=False)


def test_a_record_without_a_shape_is_shown():
    curve = {**RECORD["curve"], "shape": None, "why": "the curve is flat"}
    assert "The curve is flat." in page_of(curve=curve)


def test_the_committed_result_keeps_the_promises():
    compared = read_comparison(ROOT / "results" / "tune" / "comparison")
    winner = compared.row(RECORD["winner"]["name"])
    assert not set(compared.seeds) & set(compared.tuning.seeds)
    assert len(winner.scores) == 10
    assert sum(score > 0.9 for score in winner.scores) >= 8


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(tmp_path, width):
    path = write_page(read(RECORD, Tuned), tmp_path)
    assert path.name == PAGE
    with Browser() as browser:
        page = browser.open(path, width=width)
        page.wait(
            "[...document.querySelectorAll('.plot')].every(p => p.querySelector('.points, .lines'))"
        )
        assert page.run("document.querySelectorAll('.plot').length") == 3
        assert page.run("document.documentElement.scrollWidth") <= width
        assert page.complaints == []
        assert page.requests == []


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("span", [(0.11, 0.19), (0.2, 7.0), (1e-9, 1e3)])
def test_every_axis_has_labels_however_little_it_spans(tmp_path, span):
    record = json.loads(json.dumps(RECORD))
    for each in record["probe"]["layers"]:
        each["max"] = [span[i % 2] for i in range(len(each["max"]))]
    count = "document.querySelectorAll('.plot')[0].querySelectorAll('.ytick text').length"
    with Browser() as browser:
        page = browser.open(write_page(read(record, Tuned), tmp_path), width=1280)
        page.wait(f"{count} > 0")
        assert 2 <= page.run(count) <= 12
