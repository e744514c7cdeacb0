"""The table of a comparison as text: for a terminal, Markdown, LaTeX, and CSV for machines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gaf.common.texts import printable
from gaf.lab.reports.columns import Column, columns, nothing_learned
from gaf.lab.study.results import Comparison, Difference, Row

# What a narrow terminal goes without, in this order.
LEAST = ("gap", "time a step", "steps to baseline", "p vs control", "p vs baseline", "vs control")
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


class Terminal:
    """For a rich console, as wide as it: intervals go below, then the least important columns go."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, _, left_out = fitted(console, options, columns(self.comparison), LEAST, self._table)
        if text := nothing_learned(self.comparison):
            yield Text(one_line(text), style="yellow")
        yield table
        if left_out:
            yield Text(f"No room for: {', '.join(left_out)}.", style="dim")

    def _table(self, found: list[Column], wide: bool) -> Table:
        table = Table(
            title=Text(one_line(self.comparison.title)), title_justify="left", box=box.SIMPLE_HEAD
        )
        for column in found:
            side = "right" if column.value else "left"
            title = one_line(column.title)
            head = title if wide else "\n".join(title.rsplit(" ", 1))
            table.add_column(Text(head), justify=side, overflow="fold")
        for row in self.comparison.rows:
            table.add_row(*(self._cell(column, row, wide) for column in found))
        return table

    def _cell(self, column: Column, row: Row, wide: bool) -> Text:
        text = column.entry(row) if wide else f"{column.text(row)}\n{column.note(row)}".rstrip()
        style = COLOURS.get(row.verdict, "") if column.title == "verdict" else ""
        return Text("\n".join(map(one_line, text.split("\n"))), style)


def fitted(
    console: Console,
    options: ConsoleOptions,
    found: Sequence[Any],
    least: Iterable[str],
    draw: Callable[[list[Any], bool], Table],
) -> tuple[Table, bool, list[str]]:
    """A table that fits: in full, else drawn narrow, else also without the least important columns.

    Returns:
        The table, whether it is in full, and the titles that were left out.
    """
    columns, wide, left_out = list(found), True, []
    least = [title for title in least if title in (column.title for column in columns)]
    while True:
        table = draw(columns, wide)
        needed = Measurement.get(console, options.update(max_width=10_000), table).maximum
        if needed <= options.max_width or not (wide or least):
            return table, wide, left_out
        if wide:
            wide = False
        else:
            left_out.append(least.pop(0))
            columns = [column for column in columns if column.title not in left_out]


def markdown(comparison: Comparison) -> str:
    """A table of GitHub's Markdown."""
    found = columns(comparison)

    def line(entries: list[str]) -> str:
        return f"| {' | '.join(entries)} |\n"

    def clean(text: str) -> str:
        return MARKDOWN.sub(r"\\\1", one_line(text))

    head = line([clean(column.title) for column in found])
    rule = line(["---:" if column.value else "---" for column in found])
    return (
        head
        + rule
        + "".join(line([clean(column.entry(row)) for column in found]) for row in comparison.rows)
    )


def latex(comparison: Comparison) -> str:
    """A tabular that needs no package."""
    found = columns(comparison)

    def line(entries: list[str]) -> str:
        return " & ".join(entries) + r" \\" + "\n"

    def clean(text: str) -> str:
        return "".join(LATEX.get(char, char) for char in one_line(text))

    return "".join(
        [
            r"\begin{tabular}{" + "".join("r" if column.value else "l" for column in found) + "}\n",
            "\\hline\n",
            line([clean(column.title) for column in found]),
            "\\hline\n",
            *(line([clean(column.entry(row)) for column in found]) for row in comparison.rows),
            "\\hline\n",
            "\\end{tabular}\n",
        ]
    )


def as_csv(comparison: Comparison) -> str:
    """All figures in full precision, with a column for each seed's score; empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    lines = [_figures(row, comparison) for row in comparison.rows]
    writer.writerow(lines[0])
    writer.writerows(line.values() for line in lines)
    return out.getvalue()


def _figures(row: Row, comparison: Comparison) -> dict[str, Any]:
    return {
        "setting": one_line(row.setting),
        "kind": row.kind,
        "mean": row.mean,
        "std": row.std,
        "diverged": row.diverged,
        "failed": len(row.failed),
        **_difference("baseline", row.vs_baseline),
        "control": one_line(row.control or ""),
        **_difference("control", row.vs_control),
        "train_test_gap": row.train_test_gap,
        "seconds_per_step": row.seconds_per_step,
        "steps_to_baseline": row.steps_to_baseline,
        "reached": row.reached,
        "verdict": row.verdict,
        **{f"seed_{seed}": score for seed, score in zip(comparison.seeds, row.scores, strict=True)},
    }


def _difference(to: str, difference: Difference | None) -> dict[str, Any]:
    keys = ("mean", "low", "high", "p", "p_corrected", "n")
    return {f"vs_{to}_{key}": getattr(difference, key, None) for key in keys}


def one_line(text: str) -> str:
    r"""Text without line breaks or codes that a terminal would obey.

    Example:
        >>> one_line("a\x1b[31m\nb")
        'a [31m b'
    """
    return printable(text).replace("\n", " ")
