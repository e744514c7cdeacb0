"""One HTML file for a table of the paper, beside the texts: everything in it, no request to anywhere."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from pathlib import Path

import gaf
from gaf.common.files import write_whole
from gaf.lab.reports import sections, table_text
from gaf.lab.reports.html import Html, join, tag
from gaf.lab.reports.page import PAGE
from gaf.lab.reports.plain_page import document
from gaf.lab.reports.table_columns import TableColumn, columns, main_and_note, number, word
from gaf.lab.study.results import Difference, Filled, Line, Scores

TEXTS = {
    "table.md": table_text.markdown,
    "table.csv": table_text.as_csv,
    "table.tex": table_text.latex,
}


def write_all(table: Filled, folder: Path) -> list[Path]:
    """The page and the texts, each whole or not at all; returns where they are."""
    contents = {PAGE: render(table), **{name: make(table) for name, make in TEXTS.items()}}
    for name, content in contents.items():
        write_whole(folder / name, content.encode("utf-8", "replace"))
    return [folder / name for name in contents]


def render(table: Filled) -> str:
    """The page as text."""
    return document(table.title, _parts(table), {})


def _parts(table: Filled) -> list[Html]:
    environment = (
        part
        for key, value in sections.flat(table.environment)
        for part in (tag("dt", key), tag("dd", value))
    )
    return [
        tag("h1", table.title),
        tag("p", table.about, class_="soft"),
        tag("p", headline(table), class_="headline"),
        tag("h2", "As the paper prints it"),
        tag(
            "p",
            "In each cell the paper's number, ours, and for an f its matched control.",
            class_="about",
        ),
        _grid(table),
        _failures(table),
        tag("h2", "Line by line"),
        _lines(table),
        _classes(table),
        tag("h2", "How to make it again"),
        tag("pre", shlex.join(table.command) or "not recorded"),
        tag("details", tag("summary", "All runs"), _runs(table)),
        tag("h2", "Environment"),
        tag("dl", *environment),
        tag(
            "footer",
            f"Filled {table.created}; page by activated-gradients {gaf.__version__}.",
            class_="about",
        ),
    ]


def headline(table: Filled) -> str:
    """What came out, in one sentence."""
    compared = [line for line in table.lines if line.gain is not None]
    n = len(table.seeds)
    if not compared:
        return "There is nothing to compare yet."
    lines = [line for line in compared if line.learned]
    lost = len(compared) - len(lines)
    if lost:
        none = (
            f"Nothing learned here in {lost} of {len(compared)} settings: neither they nor the training "
            "without f score more than twice chance or 1 %, so their differences tell nothing."
        )
        if not lines:
            return none
        return f"{headline(table.model_copy(update={'lines': tuple(lines)}))} {none}"
    over = f"Of {len(lines)} settings with f or clipping"
    if n == 1:
        above = sum(line.gain.mean > 0 for line in lines if line.gain)
        return (
            f"{over}, {above} scored above the training without f. One run of each tells no difference "
            "from chance: ask for more --seeds."
        )
    words = [line.gain.verdict for line in lines if line.gain]
    parts = [f"{words.count(word)} {word}" for word in ("better", "worse", "no difference")]
    with_f = [line.beyond.verdict for line in lines if line.beyond]
    beyond = (
        f" Against its matched control f was better in {with_f.count('better')} of {len(with_f)}."
    )
    return f"{over}, over {n} seeds: {', '.join(parts)}.{beyond if with_f else ''}"


def _grid(table: Filled) -> Html:
    """Models down, settings across."""
    settings = list(dict.fromkeys(line.setting for line in table.lines))
    cells = {(line.data, line.model, line.setting): line for line in table.lines}
    rows = dict.fromkeys((line.data, line.model) for line in table.lines)
    several = len({data for data, _ in rows}) > 1
    heads = [tag("th", "model", scope="col"), *(tag("th", each, scope="col") for each in settings)]
    body = [
        tag(
            "tr",
            tag("th", f"{model}, {data}" if several else model, scope="row"),
            *(_cell(cells.get((data, model, setting))) for setting in settings),
        )
        for data, model in rows
    ]
    made = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body), class_="results")
    return sections.scroll(made, "As the paper prints it")


def _cell(line: Line | None) -> Html:
    if line is None:
        return tag("td", "")
    main, note = main_and_note(line.ours)
    parts = [tag("small", f"paper {number(line.paper)}"), tag("b", main)]
    if note:
        parts.append(tag("small", note))
    if line.control:
        main, note = main_and_note(line.control)
        parts += [tag("small", f"control {main}"), tag("small", note) if note else ""]
    return tag("td", *parts, class_=_class(line, line.gain))


def _lines(table: Filled) -> Html:
    """The long form; a click on a heading sorts it."""
    found = columns(table)
    ends = [
        max(abs(each.low), abs(each.high))
        for line in table.lines
        for each in (line.gain, line.beyond)
        if each and math.isfinite(each.high - each.low)
    ]
    reach = max(ends, default=0.0) or 1.0
    body = (tag("tr", *(_entry(column, line, reach) for column in found)) for line in table.lines)
    made = tag(
        "table", sections.sortable_head(found), tag("tbody", *body), class_="sortable results"
    )
    notes = (tag("li", f"{column.title}: {column.about}") for column in found)
    explained = tag("ul", *notes, class_="about")
    return join(
        [
            sections.scroll(made, "Line by line"),
            tag("details", tag("summary", "What the columns mean"), explained),
        ]
    )


def _entry(column: TableColumn, line: Line, reach: float) -> Html:
    text = column.text(line)
    if column.value is None:
        if column.title == "model":
            return tag("th", text, scope="row")
        return tag("td", text, class_="text")
    value, difference = column.value(line), column.difference(line)
    drawn = sections.whisker(difference, reach) if difference and line.learned else ""
    note = tag("small", column.note(line)) if column.note(line) else ""
    return tag(
        "td",
        text,
        note,
        drawn,
        data_value=value if _finite(value) else None,
        class_=_class(line, difference),
    )


def _class(line: Line, difference: Difference | None) -> str | None:
    return word(line, difference).partition(" ")[0] or None  # "no" of "no difference"


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _classes(table: Filled) -> Html:
    """The figures beside the score that have no column: the average precision of each class."""
    rows = [
        (line.model, line.setting, name, number(each.paper), number(each.ours))
        for line in table.lines
        for name, each in line.beside.items()
        if name.startswith("AP/")
    ]
    if not rows:
        return Html("")
    made = sections.plain_table(("model", "setting", "class", "paper", "ours"), rows)
    return tag("details", tag("summary", "Class by class"), made)


def _every(table: Filled) -> Iterator[tuple[Line, Scores]]:
    known = set()
    for line in table.lines:
        for found in (line.ours, line.control):
            if found and (key := (found.recipe, *found.folders.values())) not in known:
                known.add(key)
                yield line, found


def _failures(table: Filled) -> Html:
    """Runs that failed, with their errors, where everybody sees them."""
    entries = [
        tag("p", tag("b", f"{found.recipe}, seed {seed}: "), error or "no error was recorded")
        for _, found in _every(table)
        for seed, error in found.failed.items()
    ]
    if not entries:
        return Html("")
    return tag("div", tag("h2", "Failed runs"), tag("div", *entries, class_="note"))


def _runs(table: Filled) -> Html:
    rows = [
        (found.recipe, str(seed), number(value), found.folders.get(seed, "not run"))
        for _, found in _every(table)
        for seed, value in zip(table.seeds, found.values, strict=True)
    ]
    return sections.plain_table(("recipe", "seed", table.score_name, "folder"), rows)
