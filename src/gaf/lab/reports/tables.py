"""One model of a table, and its forms: for a terminal, Markdown, LaTeX, and CSV for machines.

A page draws the same model with ``templates/parts.html.jinja``.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gaf.common.texts import printable
from gaf.lab.study.results import Difference

COLOURS = {"better": "green", "worse": "red", "failed": "red"}
MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~$&])")
LATEX = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "∞": r"$\infty$",
    "–": "--",
    "µ": r"\textmu{}",
    '"': "''",
    "[": "{[}",  # at the beginning of a line it would belong to the line break before
}
DIFFERENCE = ("mean", "low", "high", "p", "p_corrected", "n")

WIDTH = 100  # of a table as text, where there is no terminal

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class Column(Generic[RowT]):
    """A column.

    Args:
        title: its heading.
        about: what it is, in a sentence.
        text: a row's entry.
        value: what to sort by, None to come last; text sorts by itself where it is unset.
        note: what belongs to the entry but is less than it, on a line of its own where there is room.
        verdict: "better", "worse" and the like, which colours the entry.
        difference: drawn beside the entry on a page.
        heads_row: whether it names the row.
        reason: why the entry is not what others of the row suggest; below the entry, on a page alone.
    """

    title: str
    about: str
    text: Callable[[RowT], str]
    value: Callable[[RowT], float | None] | None = None
    note: Callable[[RowT], str] = lambda row: ""
    verdict: Callable[[RowT], str] = lambda row: ""
    difference: Callable[[RowT], Difference | None] = lambda row: None
    heads_row: bool = False
    reason: Callable[[RowT], str] = lambda row: ""

    def entry(self, row: RowT) -> str:
        """Text and note on one line."""
        return f"{self.text(row)} {self.note(row)}".rstrip()


@dataclass(frozen=True, repr=False)
class ResultTable(Generic[RowT]):
    """A table; it prints as text and shows in a notebook.

    Args:
        title: what it is called.
        columns: those that say something.
        rows: what their entries are made from.
        figures: for CSV, the numbers of each row in full under their names.
        expendable: titles of columns that a narrow terminal goes without, in this order.
        dropped_notes: what notes are called where a narrow terminal goes without them; '' puts them below.
        warning: what makes the table say little.
        about: what was trained; Markdown and LaTeX say it above the table.
        caption: LaTeX's, before ``about``.
        group: rows of the same group have a rule around them, and columns named ``once`` one entry.
        once: titles of columns that are the same for a group.
    """

    title: str
    columns: tuple[Column[RowT], ...]
    rows: Sequence[RowT]
    figures: Sequence[Mapping[str, Any]]
    expendable: tuple[str, ...]
    dropped_notes: str = ""
    warning: str = ""
    about: str = ""
    caption: str = ""
    group: Callable[[RowT], Hashable] = lambda row: None
    once: tuple[str, ...] = ()

    def grouped(self) -> Iterator[tuple[RowT, bool]]:
        """Rows, and whether each is the first of its group."""
        for number, row in enumerate(self.rows):
            yield row, number == 0 or self.group(row) != self.group(self.rows[number - 1])

    def __repr__(self) -> str:
        """As on a terminal of this width."""
        # In a notebook rich would show the text and write nothing.
        console = Console(
            file=io.StringIO(), width=WIDTH, markup=False, color_system=None, force_jupyter=False
        )
        console.print(TerminalTable(self))
        return console.file.getvalue().rstrip()  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        from gaf.lab.reports.html import templates

        notebook = templates().get_template("notebook.html.jinja").module
        return str(notebook.results(self))  # type: ignore[attr-defined]


class TerminalTable:
    """For a rich console, as wide as it: notes go below or away, then the least important columns go."""

    def __init__(self, table: ResultTable[Any]) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns, wide, missing = list(self.table.columns), True, []
        titles = [column.title for column in columns]
        expendable = [title for title in self.table.expendable if title in titles]
        unbounded = options.update(max_width=10_000)
        while True:
            drawn = self._drawn(columns, wide)
            fits = Measurement.get(console, unbounded, drawn).maximum <= options.max_width
            if fits or not (wide or expendable):
                break
            if wide:
                wide = False
            else:
                missing.append(expendable.pop(0))
                columns = [column for column in columns if column.title not in missing]
        if not wide and self.table.dropped_notes and self._has_notes():
            missing.insert(0, self.table.dropped_notes)
        if self.table.warning:
            yield Text(one_line(self.table.warning), style="yellow")
        yield drawn
        if missing:
            yield Text(f"Not shown: {', '.join(missing)}.", style="dim")

    def _has_notes(self) -> bool:
        return any(column.note(row) for column in self.table.columns for row in self.table.rows)

    def _drawn(self, columns: Iterable[Column[Any]], wide: bool) -> Table:
        title = Text(one_line(self.table.title))
        drawn = Table(
            title=title, title_justify="left", box=box.SIMPLE_HEAD, collapse_padding=not wide
        )
        for column in columns:
            head = one_line(column.title)
            if not (wide or self.table.dropped_notes):
                head = "\n".join(head.rsplit(" ", 1))
            side = "right" if column.value else "left"
            drawn.add_column(Text(head), justify=side, overflow="fold")
        for row, first in self.table.grouped():
            drawn.add_row(*(self._cell(column, row, first, wide) for column in columns))
        return drawn

    def _cell(self, column: Column[Any], row: Any, first: bool, wide: bool) -> Text:
        if column.title in self.table.once and not first:
            return Text("")
        style = COLOURS.get(column.verdict(row), "")
        if wide:
            return Text(one_line(column.entry(row)), style)
        lines = [column.text(row)]
        if column.heads_row:  # a name such as arctan(0.1, 20)@momentum takes two lines
            lines = re.split("(?=@)", column.text(row))
        if not self.table.dropped_notes and column.note(row):
            lines.append(column.note(row))
        return Text("\n".join(map(one_line, lines)), style)


def markdown(table: ResultTable[Any]) -> str:
    """A table of GitHub's Markdown, under a heading where it says what was trained."""

    def clean(text: str) -> str:
        return MARKDOWN.sub(r"\\\1", one_line(text))

    def line(entries: Iterable[str]) -> str:
        return f"| {' | '.join(entries)} |\n"

    head = f"## {clean(table.title)}\n\n{clean(table.about)}\n\n" if table.about else ""
    return (
        head
        + line(clean(column.title) for column in table.columns)
        + line("---:" if column.value else "---" for column in table.columns)
        + "".join(line(clean(column.entry(row)) for column in table.columns) for row in table.rows)
    )


def latex(table: ResultTable[Any]) -> str:
    """A tabular that needs no package, in a table environment where there is a caption."""

    def clean(text: str) -> str:
        return "".join(LATEX.get(char, char) for char in one_line(text))

    def line(entries: Iterable[str]) -> str:
        return " & ".join(entries) + r" \\" + "\n"

    sides = "".join("r" if column.value else "l" for column in table.columns)
    body = (
        ("\\hline\n" if first else "") + line(clean(column.entry(row)) for column in table.columns)
        for row, first in table.grouped()
    )
    tabular = (
        f"\\begin{{tabular}}{{{sides}}}\n\\hline\n"
        + line(clean(column.title) for column in table.columns)
        + "".join(body)
        + "\\hline\n\\end{tabular}\n"
    )
    if not table.caption:
        return tabular
    caption = clean(f"{table.caption}. {table.about}")
    return f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n{tabular}\\end{{table}}\n"


def as_csv(table: ResultTable[Any]) -> str:
    """All figures in full precision, with a column for each seed; empty where there is none."""
    out = io.StringIO()
    names = dict.fromkeys(name for figures in table.figures for name in figures)
    writer = csv.DictWriter(out, list(names), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(table.figures)
    return out.getvalue()


def difference_figures(prefix: str, difference: Difference | None) -> dict[str, Any]:
    """A difference's numbers for CSV, under names that begin with the prefix."""
    return {f"{prefix}_{key}": getattr(difference, key, None) for key in DIFFERENCE}


def one_line(text: str) -> str:
    r"""Text without line breaks or codes that a terminal would obey.

    Example:
        >>> one_line("a\x1b[31m\nb")
        'a [31m b'
    """
    return printable(text).replace("\n", " ")
