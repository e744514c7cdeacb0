"""axe-core has no serious finding on any page, by day and by night."""

import json
from pathlib import Path

import pytest

from gaf.lab.engine.config import read
from gaf.lab.engine.doctor import Diagnosis
from gaf.lab.reports import doctor_page, landscape_page, page, tune_page
from gaf.lab.reports.atlas_page import write_atlas
from gaf.lab.reports.figures import Settings
from gaf.lab.reports.figures.explore import page as explore_page
from gaf.lab.study.results import Tuned
from tests.axe import axe, needs_npm
from tests.browser import Browser, needs_chromium
from tests.lab.reports.example import example
from tests.lab.reports.test_atlas_page import atlas_of
from tests.lab.reports.test_doctor_page import watched
from tests.lab.reports.tuned import tuned_example

pytestmark = [pytest.mark.slow, needs_chromium, needs_npm]

RECORD = json.loads(
    (Path(__file__).parents[3] / "results" / "tune" / "tune.json").read_text("utf-8")
)


def landscape():
    """A page of a bowl."""
    axis = [-1.0, 0.0, 1.0]
    return landscape_page.render(
        {
            **{"title": "digits", "step": 460, "samples": 1000, "seed": 0, "said": "Type 1."},
            **{"checkpoint": "runs/digits/checkpoints/step-00000460", "curve": RECORD["curve"]},
            "surface": {"axis": axis, "losses": [[x * x + y * y for y in axis] for x in axis]},
            "line": {"w": axis, "losses": [1.0, 0.5, 1.0], "to": "runs/other"},
        }
    )


PAGES = {
    "compare": lambda folder: page.write_page(tuned_example(folder), folder).read_text("utf-8"),
    "compare at given rates": lambda folder: page.write_page(example(folder), folder).read_text(
        "utf-8"
    ),
    "atlas": lambda folder: write_atlas(atlas_of(), folder).read_text("utf-8"),
    "tune": lambda folder: tune_page.render(read(RECORD, Tuned)),
    "landscape": lambda folder: landscape(),
    "figures": lambda folder: explore_page(Settings()),
    "doctor": lambda folder: doctor_page.render(
        Diagnosis("train.py", 30, [watched()]), ["gaf", "doctor", "train.py"]
    ),
}


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


@pytest.mark.parametrize("name", PAGES)
def test_no_serious_finding(browser, tmp_path, name):
    path = tmp_path / "page.html"
    path.write_text(PAGES[name](tmp_path), "utf-8")
    opened = browser.open(path)
    opened.wait("[...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))")
    opened.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    for scheme in ("light", "dark"):
        opened.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        assert axe(opened) == [], scheme


def test_a_finding_would_be_seen(browser, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><title>x</title><img src='data:,'><p style='color:#eee'>pale text</p>"
    )
    said = " ".join(axe(browser.open(path)))
    assert "image-alt (critical)" in said
    assert "color-contrast (serious)" in said
