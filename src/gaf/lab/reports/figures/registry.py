"""The figures by their numbers in the paper; a new one is a line here."""

from __future__ import annotations

from gaf.common.errors import GafError
from gaf.lab.reports.figures.base import Figure
from gaf.lab.reports.figures.figure_1 import Surfaces
from gaf.lab.reports.figures.figure_2 import Saddle
from gaf.lab.reports.figures.figure_3 import NearOptimum
from gaf.lab.reports.figures.figure_4 import Curves
from gaf.lab.reports.figures.figure_5 import LargestGradients

FIGURES: dict[int, type[Figure]] = {
    each.number: each for each in (Surfaces, Saddle, NearOptimum, Curves, LargestGradients)
}


def find(number: int) -> type[Figure]:
    """The figure of a number."""
    if number not in FIGURES:
        known = ", ".join(map(str, FIGURES))
        raise GafError(f"figure {number} cannot be drawn; choose from {known}")
    return FIGURES[number]
