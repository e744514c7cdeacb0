"""Figures as files: PNG and SVG for print, and the page; each appears whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from gaf.experiments.engine.files import write_whole
from gaf.reports.figures import style
from gaf.reports.figures.base import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

FORMATS = ("png", "svg", "html")
DPI = 300
PAGE = "explore.html"  # one page for all figures
# No dates and no program names in a file: the same numbers make the same file.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def write(figure: Figure, folder: Path, formats: tuple[str, ...] = FORMATS) -> list[Path]:
    """Write a figure in some formats; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for form in formats:
        if form == "html":
            from gaf.reports.figures.page import page

            path, content = folder / PAGE, page(figure.settings, figure.scene).encode()
        else:
            path, content = folder / f"figure-{figure.number}.{form}", _drawn(figure, form)
        write_whole(path, content)
        written.append(path)
    return written


def _drawn(figure: Figure, form: str) -> bytes:
    """A figure as the bytes of a PNG or SVG file."""
    import matplotlib

    with matplotlib.rc_context(style.RC):
        drawing: Drawing = figure.draw()
        file = io.BytesIO()
        drawing.savefig(file, format=form, dpi=DPI, metadata=METADATA[form])
    return file.getvalue()
