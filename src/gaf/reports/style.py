"""How settings look, in all figures and in the legend alike: a colour by rank, a line by kind."""

from __future__ import annotations

from dataclasses import dataclass

from gaf.experiments.comparison import Comparison

# Told apart also by most who do not see all colours (after Okabe and Ito, darkened for thin lines).
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b5568f", "#8a6d00", "#3aa0dd", "#7a3e9d", "#a8330f")
INK = "#1d2530"
GREY = "#8a94a1"
MANY, SHOWN = 10, 8  # of more than so many settings, so many are in the figures at first

# As plotly names the dashes, and the same lengths for SVG.
DASHES = {
    "baseline": ("solid", ""),
    "function": ("solid", ""),
    "control": ("dash", "7 4"),
    "tuned": ("dashdot", "7 3 2 3"),
    "rule": ("dot", "2 3"),
}


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
    count: dict[str, int] = {}
    first = _shown_first(comparison)
    found = {}
    for row in comparison.rows:
        rank = count.get(row.kind, 0)
        count[row.kind] = rank + 1
        is_baseline = row.kind == "baseline"
        dash, dasharray = DASHES[row.kind]
        found[row.setting] = Style(
            colour=INK if is_baseline else PALETTE[rank % len(PALETTE)],
            dash=dash,
            dasharray=dasharray,
            width=3.0 if is_baseline else 2.0,
            shown=row.setting in first,
        )
    return found


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
    """A colour that lets others through.

    Example:
        >>> faint("#0072b2")
        'rgba(0, 114, 178, 0.15)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {share})"
