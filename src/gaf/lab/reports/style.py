"""How settings look, in all figures and in the legend alike: colours tell them apart, lines their kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gaf.lab.study.results import Comparison

# Variables of the style sheet, told apart also by most who do not see all colours.
PALETTE = tuple(f"var(--colour-{i})" for i in range(8))
INK, GREY = "var(--ink)", "var(--grey)"
# The same colours on paper, as page.css has them.
IN_PRINT = {
    INK: "#1d2530",
    GREY: "#8a94a1",
    **dict(
        zip(
            PALETTE,
            (
                "#0072b2",
                "#d55e00",
                "#009e73",
                "#3aa0dd",
                "#a8330f",
                "#b5568f",
                "#8a6d00",
                "#7a3e9d",
            ),
            strict=True,
        )
    ),
}
MANY, SHOWN = 10, 8  # of more than so many settings, so many are in the figures at first

# As plotly names the dashes, and the same lengths for SVG.
DASHES = {
    "baseline": ("solid", ""),
    "function": ("solid", ""),
    "control": ("dash", "7 4"),
    "tuned": ("dashdot", "7 3 2 3"),
    "rule": ("dot", "2 3"),
}
LEVEL = ("dash", "7 4")  # of a rule without a learning rate, a level line over all rates


@dataclass(frozen=True)
class Style:
    """Of a setting."""

    colour: str
    dash: str  # plotly's
    dasharray: str  # SVG's
    width: float
    shown: bool  # at first


def styles(comparison: Comparison) -> dict[str, Style]:
    """A style for each setting: those of one kind differ in colour, those of one colour in the line."""
    colours, first = _colours(comparison), _shown_first(comparison)
    curves = comparison.tuning.curves if comparison.tuning else {}
    looks = {}
    for row in comparison.rows:
        is_baseline = row.kind == "baseline"
        curve = curves.get(row.setting)
        dash, dasharray = LEVEL if curve and not curve.has_rate else DASHES[row.kind]
        looks[row.setting] = Style(
            colour=colours[row.setting],
            dash=dash,
            dasharray=dasharray,
            width=3.0 if is_baseline else 2.0,
            shown=row.setting in first,
        )
    return looks


def _colours(comparison: Comparison) -> dict[str, str]:
    """A control has the colour of its function; other rules take theirs from the palette's other end."""
    owners = {row.control: row.setting for row in reversed(comparison.rows) if row.control}
    colours: dict[str, str] = {}
    count: dict[str, int] = {}
    for row in sorted(comparison.rows, key=lambda row: row.kind == "control"):
        group = "rule" if row.kind == "tuned" else row.kind
        rank = count.get(group, 0) % len(PALETTE)
        count[group] = rank + 1
        if row.kind == "baseline":
            colours[row.setting] = INK
        elif row.kind == "control" and row.setting in owners:
            colours[row.setting] = colours[owners[row.setting]]
        else:
            colours[row.setting] = PALETTE[-1 - rank if group == "rule" else rank]
    return colours


def _shown_first(comparison: Comparison) -> set[str]:
    """All where they are few; else the baseline and the best."""
    if len(comparison.rows) <= MANY:
        return {row.setting for row in comparison.rows}
    sign = -1 if comparison.higher_is_better else 1
    ranked = sorted(
        comparison.rows,
        key=lambda row: (
            row.setting != comparison.baseline,
            row.mean is None,
            sign * (row.mean or 0.0),
        ),
    )
    return {row.setting for row in ranked[:SHOWN]}


def faint(colour: str, share: float = 0.15) -> str:
    """A colour that lets others through: two more hexadecimal digits.

    Example:
        >>> faint("#0072b2"), faint(INK, 0.3)
        ('#0072b226', 'var(--ink)4c')
    """
    return f"{colour}{round(255 * share):02x}"


def vertical(x: float, colour: str, width: float) -> dict[str, Any]:
    """A dashed line from the bottom of a plot to its top, as plotly reads it."""
    line = {"color": colour, "width": width, "dash": "dash"}
    return {"type": "line", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line}
