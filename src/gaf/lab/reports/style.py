"""How settings look, in all figures and in the legend alike: colours tell them apart, lines their kind."""

from __future__ import annotations

from dataclasses import dataclass

from gaf.lab.study.results import Comparison

# Told apart also by most who do not see all colours (after Okabe and Ito, darkened for thin lines).
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#3aa0dd", "#a8330f", "#b5568f", "#8a6d00", "#7a3e9d")
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
    colours, first = _colours(comparison), _shown_first(comparison)
    found = {}
    for row in comparison.rows:
        is_baseline = row.kind == "baseline"
        dash, dasharray = DASHES[row.kind]
        found[row.setting] = Style(
            colour=colours[row.setting],
            dash=dash,
            dasharray=dasharray,
            width=3.0 if is_baseline else 2.0,
            shown=row.setting in first,
        )
    return found


def _colours(comparison: Comparison) -> dict[str, str]:
    """A control has the colour of its function; other rules take theirs from the palette's other end."""
    owners = {row.control: row.setting for row in reversed(comparison.rows) if row.control}
    found: dict[str, str] = {}
    count: dict[str, int] = {}
    for row in sorted(comparison.rows, key=lambda row: row.kind == "control"):
        group = "rule" if row.kind == "tuned" else row.kind
        rank = count.get(group, 0) % len(PALETTE)
        count[group] = rank + 1
        if row.kind == "baseline":
            found[row.setting] = INK
        elif row.kind == "control" and row.setting in owners:
            found[row.setting] = found[owners[row.setting]]
        else:
            found[row.setting] = PALETTE[-1 - rank if group == "rule" else rank]
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
