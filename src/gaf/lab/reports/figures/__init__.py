"""The figures of the paper, drawn from numbers computed here: for print, and one page to play with."""

from gaf.lab.reports.figures.base import Figure, Settings
from gaf.lab.reports.figures.registry import FIGURES, find
from gaf.lab.reports.figures.save import FORMATS, PRINT, write, write_page

__all__ = ["FIGURES", "FORMATS", "PRINT", "Figure", "Settings", "find", "write", "write_page"]
