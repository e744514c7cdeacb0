"""The numbers of Figure 1: the six surfaces by two measures that disagree."""

import math

import pytest

from gaf.lab.landscape import compare
from gaf.lab.theory.conditioning import Box
from gaf.lab.theory.fields import NormClip, ValueClip
from gaf.lab.theory.problems import PAPER

# What follows by hand from L' = (2w₁, 0.4w₂): the field is steepest at 0, 2αβ = 4, and flattest at the
# corner, and at (d, d) its components are f(2d) and f(0.4d).
FIGURE_1 = {
    None: (5.0, lambda g: g),
    "arctan(0.1, 20)": (1 + 40**2, lambda g: math.atan(20 * g)),
    "tanh(0.1, 20)": (math.cosh(40) ** 2, lambda g: math.tanh(20 * g)),
    "log(0.1, 20)": (4 / (0.4 * 2 / 9), lambda g: math.log1p(20 * g)),
    NormClip(0.1): (math.inf, lambda g: g),
    ValueClip(0.1): (math.inf, lambda g: min(g, 0.1)),
}
# The same in the digits that the panels show.
SHOWN = {
    None: ("5", "5.00 5.00 5.00"),
    "arctan(0.1, 20)": ("1.6e+03", "4.77 1.96 1.07"),
    "tanh(0.1, 20)": ("1.4e+34", "4.76 1.50 1.00"),
    "log(0.1, 20)": ("45", "4.37 2.74 1.69"),
    NormClip(0.1): ("inf", "5.00 5.00 5.00"),
    ValueClip(0.1): ("inf", "5.00 2.50 1.00"),
}


@pytest.fixture(scope="module")
def rows():
    return compare(PAPER, FIGURE_1, Box.around(2, 1.0), points=21)


@pytest.mark.parametrize("number", range(6), ids=[str(key) for key in FIGURE_1])
def test_both_measures_of_figure_1(rows, number):
    row, (condition, f) = rows[number], list(FIGURE_1.values())[number]
    assert row.condition == pytest.approx(condition, rel=1e-6)
    ratios = [f(2 * d) / f(0.4 * d) for d in (0.01, 0.1, 1.0)]
    assert row.anisotropy == pytest.approx(ratios, rel=1e-9)
    shown = f"{row.condition:.2g}", " ".join(f"{ratio:.2f}" for ratio in row.anisotropy)
    assert shown == list(SHOWN.values())[number]


def test_the_measures_disagree(rows):
    original, *gafs = rows[:4]
    for each in gafs:
        assert each.condition > original.condition
        assert each.anisotropy[-1] < original.anisotropy[-1]
        assert each.anisotropy[0] == pytest.approx(5, rel=0.15)  # small gradients: only rescaled


def test_only_norm_clipping_has_no_equivalent_loss(rows):
    assert [each.surface.exact for each in rows] == [True, True, True, True, False, True]
    clipped = rows[4].surface
    assert clipped.curl > 0.1
    assert 0.05 < clipped.residual < 0.5
