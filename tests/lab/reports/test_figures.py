"""Figures for print: their numbers, their panels, files that appear whole and are the same every time."""

import math
import re
from functools import cache

import pytest

from gaf.lab.reports.figures import FIGURES, Settings, find, write, write_page
from gaf.lab.reports.figures.base import short


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Draws a figure, once, and gives it with its SVG as text."""
    folder = tmp_path_factory.mktemp("figures")

    @cache
    def draw(number):
        figure = FIGURES[number](Settings())
        write(figure, folder, ("svg",))
        return figure, (folder / f"figure-{number}.svg").read_text("utf-8")

    return draw


def words(svg):
    """The text of an SVG, in reading order, without markup."""
    return " ".join(re.findall(r"<(?:text|tspan)[^>]*>([^<]+)<", svg))


@pytest.mark.slow
def test_figure_1_shows_both_measures_on_each_panel(drawn):
    figure, svg = drawn(1)
    shown = words(svg)
    for letter in "abcdefghijkl":
        assert f"({letter}) " in shown
    names = ("original", "arctan(0.1, 20)", "tanh(0.1, 20)", "log(0.1, 20)")
    for name in (*names, "norm clipping 0.1", "value clipping 0.1"):
        assert f"{name}, 3D" in shown
        assert f"{name}, contour" in shown
    for value in ("5", "1.6×10³", "1.4×10³⁴", "45"):
        assert len(re.findall(rf"over the box: {value}(?!\S)", shown)) == 2, value
    assert len(re.findall("over the box: infinite", shown)) == 4
    for ratios in ("4.77, 1.96, 1.07", "4.76, 1.50, 1.00", "4.37, 2.74, 1.69", "5.00, 2.50, 1.00"):
        assert shown.count(f"anisotropy: {ratios}") == 2
    assert shown.count("anisotropy: 5.00, 5.00, 5.00") == 4  # the original and norm clipping
    assert shown.count("no exact surface; residual 13%") == 2
    assert "The two measures disagree" in shown
    assert figure.measures_disagree


@pytest.mark.slow
def test_figure_1_numbers(drawn):
    numbers = drawn(1)[0].numbers()
    rows = {row["name"]: row for row in numbers["surfaces"]}
    assert rows["arctan(0.1, 20)"]["zeta_over_box"] == pytest.approx(1601)
    assert rows["norm clipping 0.1"]["zeta_over_box"] == math.inf
    assert rows["norm clipping 0.1"]["exact"] is False
    assert r"\operatorname{atan}" in rows["arctan(0.1, 20)"]["latex"]


@pytest.mark.slow
def test_figure_1_says_so_only_where_the_measures_disagree():
    # so wide a function only scales the gradient: nothing gets worse or better to speak of
    assert not find(1)(Settings(alpha=100.0, beta=1e-6)).measures_disagree


@pytest.mark.slow
def test_figure_2_is_steeper_inside_the_crossover(drawn):
    figure, svg = drawn(2)
    original, equivalent = (row["descent_along_w2"] for row in figure.numbers()["surfaces"])
    radius = figure.f.crossover / 2
    assert original == pytest.approx(radius**2)
    assert equivalent == pytest.approx(figure.f.integral(2 * radius) / 2)
    assert equivalent > original
    assert "(b) arctan(0.1, 20)" in words(svg)


def test_figure_2_needs_gradients_that_are_enlarged():
    with pytest.raises(ValueError, match="alpha \\* beta > 1"):
        find(2)(Settings(alpha=0.1, beta=5.0))


def test_figure_4_is_as_its_names_say(drawn):
    """Near the minimum Type 1 is flatter and Type 2 sharper than w²; above 2 both are steeper."""
    figure, svg = drawn(4)
    w, losses, slopes = figure.w, figure.losses, figure.gradients
    near, far = (w > 0) & (w < 0.3), w > 1.42
    assert (slopes["Type 1"][near] < slopes["quadratic"][near]).all()
    assert (slopes["Type 2"][near] > slopes["quadratic"][near]).all()
    for name in ("Type 1", "Type 2"):
        above = (losses[name] > 2) & (w > 0)
        assert (slopes[name][above] > slopes["quadratic"][above]).all()
        assert (losses[name][far] > losses["quadratic"][far]).all()
    assert {"quadratic", "Type 1", "Type 2"} <= set(re.findall(r">(quadratic|Type \d)<", svg))


@pytest.mark.slow
def test_the_same_numbers_make_the_same_file(tmp_path, drawn):
    figure, svg = drawn(4)
    write(figure, tmp_path)
    pages = [write_page(Settings(), "bowl", tmp_path).read_bytes() for _ in range(2)]
    assert pages[0] == pages[1]
    assert (tmp_path / "figure-4.svg").read_text("utf-8") == svg
    assert (tmp_path / "figure-4.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "explore.html",
        "figure-4.png",
        "figure-4.svg",
    ]


def test_files_appear_whole_or_not_at_all(tmp_path, drawn, monkeypatch):
    figure, _ = drawn(4)
    write(figure, tmp_path, ("png",))
    before = (tmp_path / "figure-4.png").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gaf.common.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(figure, tmp_path, ("png",))
    assert (tmp_path / "figure-4.png").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["figure-4.png"]


def test_bad_input_is_one_sentence():
    with pytest.raises(ValueError, match="figure 6 cannot be drawn; choose from 1, 2, 3, 4, 5"):
        find(6)
    with pytest.raises(ValueError, match="alpha must be positive"):
        Settings(alpha=-1.0)
    with pytest.raises(ValueError, match="clip at a positive limit"):
        Settings(norm=0.0)


def test_short_numbers():
    assert [short(x) for x in (0.0, 5.0, 999.0, 1601.0, 2e-5)] == [
        *("0", "5", "999", "1.6×10³", "2.0×10⁻⁵")
    ]
