"""The figures of the paper, drawn from numbers computed here: for print, and one page to play with."""

from pathlib import Path

from gaf.common.errors import GafError
from gaf.lab.reports.figures.base import FORMATS, PRINT, Figure, Settings, write
from gaf.lab.reports.figures.losses import Curves, Saddle, Surfaces
from gaf.lab.reports.figures.trained import LargestGradients, NearOptimum

__all__ = ["FIGURES", "FORMATS", "PRINT", "Figure", "Settings", "find", "write", "write_page"]

# By their numbers in the paper; a new one is a name here.
FIGURES: dict[int, type[Figure]] = {
    kind.number: kind for kind in (Surfaces, Saddle, NearOptimum, Curves, LargestGradients)
}
PAGE = "explore.html"


def find(number: int) -> type[Figure]:
    """The figure of a number."""
    if number not in FIGURES:
        known = ", ".join(map(str, FIGURES))
        raise GafError(f"figure {number} cannot be drawn; choose from {known}")
    return FIGURES[number]


def write_page(settings: Settings, scene: str, folder: Path) -> Path:
    """Write the page to play with, which is one for all figures and opens on a scene."""
    from gaf.lab.reports import html
    from gaf.lab.reports.figures.explore import page

    folder.mkdir(parents=True, exist_ok=True)
    return html.write(page(settings, scene), folder / PAGE)
