"""Figures as files: PNG and SVG for print, and the page; each appears whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gaf.common.files import write_whole
from gaf.lab.reports.figures import style
from gaf.lab.reports.figures.base import Figure, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PRINT = ("png", "svg")
FORMATS = (*PRINT, "html")
DPI = 300
PAGE = "explore.html"
# No dates and no program names in a file: the same numbers make the same file.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def write(figure: Figure, folder: Path, formats: Iterable[str] = PRINT) -> list[Path]:
    """Write a figure for print in some formats; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for form in formats:
        paths.append(folder / f"figure-{figure.number}.{form}")
        write_whole(paths[-1], drawn(figure, form))
    return paths


def write_page(settings: Settings, scene: str, folder: Path) -> Path:
    """Write the page to play with, which is one for all figures and opens on a scene."""
    from gaf.lab.reports.figures.explore import page

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / PAGE, page(settings, scene).encode())
    return folder / PAGE


def drawn(figure: Figure, form: str) -> bytes:
    """A figure as the bytes of a PNG or SVG file."""
    import matplotlib

    with matplotlib.rc_context(style.RC):
        drawing: Drawing = figure.draw()
        file = io.BytesIO()
        drawing.savefig(file, format=form, dpi=DPI, metadata=METADATA[form])
    return file.getvalue()
