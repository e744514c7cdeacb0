"""What a figure is: numbers computed once, drawn for print and saved, and told as data.

Each file appears whole or not at all.
"""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gaf.common.files import write_whole
from gaf.functions import PAPER, Activation
from gaf.lab.reports.figures import style
from gaf.lab.theory.fields import NormClip, ValueClip

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


PRINT = ("png", "svg")
FORMATS = (*PRINT, "html")
DPI = 300
# No dates and no program names in a file: the same numbers make the same file.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


@dataclass(frozen=True)
class Settings:
    """What the figures are drawn with; the paper gives no α and β for them, so these are its preset."""

    alpha: float = 0.1
    beta: float = 20.0
    norm: float = 0.1  # at which the gradient's norm is clipped

    def __post_init__(self) -> None:
        _ = self.functions, self.norm_clip, self.value_clip  # each refuses what it cannot take

    @property
    def functions(self) -> tuple[Activation, ...]:
        """The three functions of the paper."""
        return tuple(family(self.alpha, self.beta) for family in PAPER)

    @property
    def norm_clip(self) -> NormClip:
        return NormClip(self.norm)

    @property
    def value_clip(self) -> ValueClip:
        """Each element clipped at α, as the paper does."""
        return ValueClip(self.alpha)


class Figure(ABC):
    """A figure of the paper. Making one computes its numbers; drawing comes after."""

    number: ClassVar[int]
    title: ClassVar[str]
    scene: ClassVar[str]  # what the page opens on

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def draw(self) -> Drawing:
        """The figure for print."""

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """Every number the figure shows, under its name."""


def short(value: float) -> str:
    """A number in two or three digits, powers of ten written out.

    Example:
        >>> [short(x) for x in (5.0, 1601.0, 1.4e34, 0.1285, float("inf"))]
        ['5', '1.6×10³', '1.4×10³⁴', '0.129', 'infinite']
    """
    if math.isinf(value):
        return "infinite"
    if 1e-3 <= abs(value) < 1e3 or value == 0:
        return f"{value:.3g}"
    digits, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits}×10{raised}"


def write(figure: Figure, folder: Path, formats: Iterable[str] = PRINT) -> list[Path]:
    """Write a figure for print in some formats; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for form in formats:
        paths.append(folder / f"figure-{figure.number}.{form}")
        write_whole(paths[-1], drawn(figure.draw, form))
    return paths


def drawn(draw: Callable[[], Drawing], form: str) -> bytes:
    """What a function draws as the bytes of a PNG or SVG file."""
    import matplotlib

    with matplotlib.rc_context(style.RC):
        file = io.BytesIO()
        draw().savefig(file, format=form, dpi=DPI, metadata=METADATA[form])
    return file.getvalue()
