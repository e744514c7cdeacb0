"""Figures 3 and 5: drawn from trainings, with numbers that say what is seen."""

import pytest

from gaf.lab.reports.figures import Settings, find, write

pytestmark = pytest.mark.slow


def test_figure_3_is_near_an_optimum(tmp_path):
    figure = find(3)(Settings())
    (path,) = write(figure, tmp_path, ("svg",))
    text = path.read_text("utf-8")
    assert all(f"({letter})" in text for letter in "abcd")
    for each in figure.numbers()["curves"]:
        losses = each["losses"]
        assert losses[25] < 1.0  # trained
        assert each["shape"] is not None
        assert abs(each["shape"]["optimum"]) < each["radius"]  # it is in sight
        if each["radius"] == 1.0:
            assert losses[25] - min(losses) < 0.1 * (max(losses) - min(losses))


def test_figure_5_marks_the_largest_gradient(tmp_path):
    figure = find(5)(Settings())
    (path,) = write(figure, tmp_path, ("svg",))
    assert "largest" in path.read_text("utf-8")
    for each in figure.numbers()["models"]:
        assert each["largest"][each["when"] - 1] == max(each["largest"])
    calm, deep = figure.numbers()["models"]
    assert calm["spread"] < 100 < 1000 < deep["spread"]
