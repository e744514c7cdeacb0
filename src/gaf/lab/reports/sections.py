"""The parts of the page that are words and tables."""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from gaf.lab.reports.columns import Column, columns, nothing_learned
from gaf.lab.reports.html import Html, join, tag
from gaf.lab.reports.style import INK, Style
from gaf.lab.study.results import Comparison, Difference, Row

ORDER = ("failed", "better", "worse", "no difference", "nothing learned", "baseline")
WHISKER = (120, 12)  # width and height of a drawn interval, in pixels
WORD = 12  # letters that stay together in a cell
FAR = 2.5  # times the median: what lies beyond is drawn as an arrow
BETTER, WORSE, SAME = "#0b7a43", "#b3261e", "#6b7684"  # as in the style sheet


def headline(comparison: Comparison) -> Html:
    """What came out, in one line."""
    n = len(comparison.seeds)
    others = [row for row in comparison.rows if row.verdict != "baseline"]
    if not others:
        found = columns(comparison)[1]
        text = f"{found.title} {found.entry(comparison.rows[0])} at the end"
        return tag("p", text + (f", over {n} seeds." if n > 1 else "."), class_="headline")
    counts = {name: sum(row.verdict == name for row in others) for name in ORDER}
    parts = [
        f"{counts['better'] or 'none'} better",
        *(f"{counts[name]} {name}" for name in ("worse", "failed") if counts[name]),
        *([f"{counts['no difference']} with no difference"] if counts["no difference"] else []),
        *([f"{counts['nothing learned']} at chance"] if counts["nothing learned"] else []),
    ]
    seeds = "1 seed" if n == 1 else f"{n} seeds"
    what = "1 setting" if len(others) == 1 else f"{len(others)} settings"
    text = f"Of {what} against {comparison.baseline} over {seeds}: {', '.join(parts)}."
    return tag("p", text, class_="headline")


def warning(comparison: Comparison) -> Html:
    """What makes the rest of the page say little."""
    text = nothing_learned(comparison)
    return tag("p", text, class_="note") if text else Html("")


def verdicts(comparison: Comparison) -> Html:
    """A sentence for each setting, those that say most first."""
    if len(comparison.rows) == 1:
        return Html("")
    rows = sorted(comparison.rows, key=_weight)
    items = (
        tag(
            "li",
            tag("span", row.verdict, class_="mark"),
            tag("span", tag("b", row.setting), ": ", row.sentence),
            class_=_class(row),
        )
        for row in rows
    )
    about = (
        f"In brackets: the mean difference of {comparison.score_name}, paired by seed, its 95 % interval, "
        "and the p-value corrected for all differences of the table."
    )
    return join([tag("ul", *items, class_="verdicts"), tag("p", about, class_="about")])


def _weight(row: Row) -> tuple[int, float]:
    """What is better or worse by most comes first; the others keep their order."""
    tells = row.verdict in ("better", "worse") and row.vs_baseline is not None
    return ORDER.index(row.verdict), -abs(row.vs_baseline.mean) if tells else 0.0  # type: ignore[union-attr]


def _class(row: Row) -> str:
    return row.verdict.split()[0]  # "no" of "no difference", "nothing" of "nothing learned"


def results(comparison: Comparison) -> Html:
    """The table; a click on a heading sorts it."""
    found = columns(comparison)
    reach = _reach(row.vs_baseline for row in comparison.rows)
    body = (tag("tr", *(_cell(column, row, reach) for column in found)) for row in comparison.rows)
    table = tag(
        "table",
        sortable_head(found),
        tag("tbody", *body),
        class_="sortable results",
    )
    notes = (f"{column.title}: {column.about}" for column in found[1:])
    explained = tag("ul", *(tag("li", note) for note in notes), class_="about")
    return join(
        [
            scroll(table, "Results"),
            tag("details", tag("summary", "What the columns mean"), explained),
        ]
    )


def sortable_head(found: Iterable[Any]) -> Html:
    """The headings of columns, with buttons that sort by them."""
    heads = (
        tag(
            "th",
            tag("button", column.title, type="button", title=column.about),
            scope="col",
            aria_sort="none",
            data_numeric="yes" if column.value else "no",
            class_=None if column.value else "text",
        )
        for column in found
    )
    return tag("thead", tag("tr", *heads))


def _cell(column: Column, row: Row, reach: float) -> Html:
    text = column.text(row)
    if column.title == "setting":
        return tag("th", breakable(text), scope="row")
    if column.value is None:
        return tag("td", text, class_=f"text {_class(row)}")
    note = tag("small", column.note(row)) if column.note(row) else ""
    value = column.value(row)
    drawn = (
        whisker(row.vs_baseline, reach) if column.title == "vs baseline" and row.vs_baseline else ""
    )
    known = value is not None and not math.isnan(value)
    # JavaScript's Number reads "Infinity", Python writes "inf"
    spelled = str(value).replace("inf", "Infinity") if known else None
    return tag("td", text, note, drawn, data_value=spelled)


def breakable(text: str) -> Html:
    """A long name that may go on in a new line after a sign.

    Example:
        >>> breakable("control(log(1)@update)")
        'control(<wbr>log(1)<wbr>@update)'
    """
    return join(re.split(r"(?:(?<=[)/,])|(?<=^control\())(?=[^\s)])", text), tag("wbr"))


def _reach(differences: Iterable[Difference | None]) -> float:
    """How far drawn intervals go to both sides of 0: to the widest, but not so far that most are dots."""
    ends = [
        max(abs(each.low), abs(each.high))
        for each in differences
        if each is not None and math.isfinite(each.high - each.low)
    ]
    wide = [end for end in ends if end > 0]
    return min(max(wide), FAR * statistics.median(wide)) if wide else 1.0


def whisker(difference: Difference, reach: float) -> Html:
    """A difference and its interval, drawn around the line of no difference; an arrow where it is far off."""
    width, height = WHISKER
    if not math.isfinite(difference.high - difference.low):
        return Html("")

    def x(value: float) -> float:
        return round(width / 2 + max(-1, min(1, value / reach)) * (width / 2 - 5), 1)

    colour = {"better": BETTER, "worse": WORSE}.get(difference.verdict, SAME)
    middle, line = height / 2, {"stroke": colour, "stroke_width": 2}
    at = x(difference.mean)
    point = math.copysign(5, difference.mean)
    arrow = f"{at - point},1.5 {at + point},{middle} {at - point},{height - 1.5}"
    return tag(
        "svg",
        tag("line", x1=width / 2, x2=width / 2, y1=0, y2=height, stroke="#b6bfc9"),
        tag("line", x1=x(difference.low), x2=x(difference.high), y1=middle, y2=middle, **line),
        tag("polygon", points=arrow, fill=colour)
        if abs(difference.mean) > reach
        else tag("circle", cx=at, cy=middle, r=3.5, fill=colour),
        class_="whisker",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        aria_hidden="true",
    )


def legend(styles: dict[str, Style]) -> Html:
    """Which settings the figures show."""
    if len(styles) == 1:
        return Html("")
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", value=setting, checked="" if style.shown else None),
            _sample(style),
            setting,
            class_=None if style.shown else "off",
        )
        for setting, style in styles.items()
    ]
    buttons = (
        tag("button", text, type="button", data_show=which)
        for text, which in (("show all", "all"), ("hide all", "none"))
    )
    some = not all(style.shown for style in styles.values())
    note = tag("p", "The baseline and the best settings are shown at first.", class_="about")
    return join(
        [
            tag(
                "div", *boxes, *buttons, class_="legend", role="group", aria_label="Settings shown"
            ),
            note if some else "",
        ]
    )


def _sample(style: Style) -> Html:
    line = tag(
        "line",
        **{
            "x1": 0,
            "x2": 30,
            "y1": 6,
            "y2": 6,
            "stroke": style.colour,
            "stroke_width": style.width,
        },
        stroke_dasharray=style.dasharray or None,
    )
    return tag("svg", line, width=30, height=12, aria_hidden="true")


def settings(comparison: Comparison) -> Html:
    """What each setting changes in the config of the baseline."""
    rows = []
    for row in comparison.rows:
        changes = ", ".join(f"{key} = {value}" for key, value in row.changes.items())
        also = f" (also: {', '.join(row.also)})" if row.also else ""
        rows.append((row.setting + also, row.kind, changes or "–", row.control or "–"))
    return plain_table(("setting", "kind", "config, where it differs", "matched control"), rows)


def runs(comparison: Comparison, digits: int) -> Html:
    """Every run with its folder, and the error of those that failed."""
    rows = [
        (
            run.setting,
            str(run.seed),
            run.status,
            "–" if run.score is None else f"{run.score:.{digits}f}",
            f"{run.folder}: {run.error}" if run.error else run.folder,
        )
        for run in comparison.runs
    ]
    return plain_table(("setting", "seed", "status", comparison.score_name, "folder"), rows)


def failures(comparison: Comparison) -> Html:
    """Runs that failed, with their errors, where everybody sees them."""
    found = [run for run in comparison.runs if run.status == "failed"]
    if not found:
        return Html("")
    entries = (
        tag(
            "p", tag("b", f"{run.setting}, seed {run.seed}: "), run.error or "no error was recorded"
        )
        for run in found
    )
    return tag("div", tag("h2", "Failed runs"), tag("div", *entries, class_="note"))


def plain_table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Html:
    """A table of text that is not sorted; long entries go on in a new line wherever they must."""

    def cell(text: str) -> Html:
        return tag("td", text, class_="text wrap" if len(text) > WORD else "text")

    table = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", head, scope="col", class_="text") for head in heads))),
        tag("tbody", *(tag("tr", *map(cell, row)) for row in rows)),
    )
    return scroll(table, heads[0])


def scroll(table: Html, name: str) -> Html:
    """A table that scrolls by itself where it is wider than the window."""
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=name)


def commands(comparison: Comparison) -> Html:
    """How to make it again."""
    return tag("pre", shlex.join(comparison.command) or "not recorded")


def environment(comparison: Comparison) -> Html:
    """Versions, machine and data, as the runs recorded them."""
    entries = []
    for key, value in flat(comparison.environment):
        entries += [tag("dt", key), tag("dd", value)]
    return tag("dl", *entries)


def flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested values line by line: those without further nesting share one.

    Example:
        >>> list(flat({"versions": {"torch": "2.13", "numpy": "2.4"}, "cores": 2, "resumed": []}))
        [('versions', 'torch 2.13, numpy 2.4'), ('cores', '2')]
    """
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and any(
            isinstance(each, dict | list) for each in value.values()
        ):
            yield from flat(value, f"{name}.")
        elif isinstance(value, dict):
            if value:
                yield name, ", ".join(f"{inner} {each}" for inner, each in value.items())
        elif isinstance(value, list | tuple):
            if value and all(isinstance(each, str) for each in value):
                yield name, shlex.join(value)
            elif value:
                yield name, ", ".join(map(str, value))
        elif value is not None:
            yield name, str(value)


def swatch() -> Html:
    """The caption that reads the figures of f."""
    parts = (
        "Filled: how many elements have which size, over the whole run; dotted grey: at the first "
        "record, grey: at the last. ",
        tag("b", "Black", style=f"color:{INK}"),
        ": f(g), on the right-hand axis; dotted black: g itself. Where the two run side by side f only "
        "rescales; where f is flat it is saturated. They cross at the dashed line: elements left of it "
        "are enlarged, those to the right restrained.",
    )
    return tag("p", *parts, class_="about")
