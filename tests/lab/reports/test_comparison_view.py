"""A comparison from Python: the answer, the table and the plot, as a notebook shows them."""

import subprocess
import sys

import pytest

import gaf.lab
from gaf.lab.reports.comparison_view import ComparisonView
from gaf.lab.reports.html import asset
from gaf.lab.reports.style import IN_PRINT
from gaf.lab.study.plan import TuningPlan
from gaf.lab.study.results import Comparison
from tests.lab.reports.example import HOSTILE, ORDINARY, comparison_of
from tests.lab.reports.test_page import INJECTIONS, Reader
from tests.lab.reports.tuned import RULES, tuned_comparison
from tests.lab.study.grid_tasks import HerePool, base


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    return ComparisonView(tuned_comparison(), tmp_path_factory.mktemp("view"))


def test_what_it_says(view):
    assert view.answer.startswith("Yes: tanh(0.1, 20)@momentum is better than tuned sgd")
    text = str(view.table())
    assert "0.9893 ± 0.0027" in text
    assert max(map(len, text.splitlines())) <= 100
    assert repr(view) == f"{view.answer}\n\n{text}"
    assert "<td" in view.table()._repr_html_()


def test_the_plot_is_the_curve_over_the_learning_rate(view):
    figure = view.plot()
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [*(name for name in RULES if name != "broken"), "broken (failed)"]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines["sgd"].get_ydata())[:2] == [0.151, 0.44]


def test_the_seeds_for_a_difference_of_ones_own(view):
    planned = [view.seeds_to_plan(size) for size in (0.005, 0.01, 0.02)]
    assert planned == sorted(planned, reverse=True)
    assert len({*planned}) == 3
    with pytest.raises(ValueError, match="above 0"):
        view.seeds_to_plan(0.0)


def test_what_a_notebook_shows(view):
    page = Reader(view._repr_html_())
    parts = [
        view.answer,
        "validation top1",
        "verdict",
        "0.9893 ± 0.0027",
        "Windows of learning rates",
    ]
    places = [page.text.index(part) for part in parts]
    assert places == sorted(places)
    assert [tag for tag, _ in page.elements].count("svg") == 1
    assert "report.html" in page.text


@pytest.mark.parametrize("text", [*INJECTIONS, HOSTILE, "$x$ $", r"\frac{"])
def test_names_stay_text(text, tmp_path):
    rules = {f"{text}{name}": rule for name, rule in RULES.items()}
    page = Reader(ComparisonView(tuned_comparison(rules), tmp_path)._repr_html_())
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "a"}
    assert not [a for _, a in page.elements if "onerror" in a]
    assert f"{text}auto" in page.text


def test_at_given_rates_there_is_no_plot(tmp_path):
    view = ComparisonView(comparison_of(ORDINARY), tmp_path)
    assert view.plot() is None
    page = Reader(view._repr_html_())
    assert "svg" not in [tag for tag, _ in page.elements]
    assert "Windows" not in page.text


def test_gaf_lab_compare(tmp_path, monkeypatch):
    monkeypatch.setattr("gaf.lab.study.pool.Pool", HerePool)
    plan = TuningPlan(rates=2, seeds=1)
    options = {"seeds": 2, "tuning": plan, "out": tmp_path / "here"}
    view = gaf.lab.compare(base(), ["adam, tanh(0.1, 20)"], **options)
    assert isinstance(view.comparison, Comparison)
    assert [row.setting for row in view.comparison.rows] == [
        "sgd",
        "adam",
        "tanh(0.1, 20)@momentum",
    ]
    assert view.page.is_file()
    assert view.answer in Reader(view.page.read_text("utf-8")).text
    assert view.plot() is not None
    given = gaf.lab.compare(base(), "adam, lr x2", seeds=1, tuning=None, out=tmp_path / "given")
    assert [row.setting for row in given.comparison.rows] == ["sgd", "adam", "lr x2"]


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = gaf.lab.nothing


def test_import_gaf_lab_is_light():
    code = "import sys, gaf.lab; print([n for n in sys.modules if n.startswith('gaf.lab.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_colours_are_those_of_the_pages():
    css = asset("page.css")
    for name, colour in IN_PRINT.items():
        assert f"{name.removeprefix('var(').removesuffix(')')}: {colour}" in css
