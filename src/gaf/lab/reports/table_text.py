"""A filled table of the paper as text: for a terminal, Markdown, LaTeX, and CSV for machines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from gaf.lab.reports.table_columns import TableColumn, columns, word
from gaf.lab.reports.tables import COLOURS, LATEX, MARKDOWN, fitted, one_line
from gaf.lab.study.results import Difference, Filled, Line, Scores

# What a narrow terminal goes without, in this order.
LEAST = ("paper top5", "top5", "verdict", "paper's gain", "control")


class Terminal:
    """For a rich console: as wide as that, and without the least important columns where it is narrow."""

    def __init__(self, table: Filled) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown, wide, left_out = fitted(console, options, columns(self.table), LEAST, self._table)
        yield shown
        missing = [*(["intervals"] if not wide and len(self.table.seeds) > 1 else []), *left_out]
        if missing:
            yield Text(f"No room for: {', '.join(missing)}.", style="dim")

    def _table(self, found: Sequence[TableColumn], wide: bool) -> Table:
        title = Text(one_line(self.table.title))
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        for column in found:
            side = "right" if column.value else "left"
            table.add_column(Text(column.title), justify=side, overflow="fold")
        for line, first in _first_of_model(self.table.lines):
            table.add_row(*(self._cell(column, line, first, wide) for column in found))
        return table

    def _cell(self, column: TableColumn, line: Line, first: bool, wide: bool) -> Text:
        if column.title in ("data", "model") and not first:
            return Text("")
        style = COLOURS.get(word(line, column.difference(line)), "")
        return Text(one_line(column.entry(line) if wide else column.text(line)), style)


def _first_of_model(lines: Sequence[Line]) -> Iterator[tuple[Line, bool]]:
    before = None
    for line in lines:
        here = (line.data, line.model)
        yield line, here != before
        before = here


def markdown(table: Filled) -> str:
    """A table of GitHub's Markdown, under a heading and what was trained."""
    found = columns(table)

    def clean(text: str) -> str:
        return MARKDOWN.sub(r"\\\1", one_line(text))

    def row(entries: Sequence[str]) -> str:
        return f"| {' | '.join(entries)} |\n"

    return (
        f"## {clean(table.title)}\n\n{clean(table.about)}\n\n"
        + row([column.title for column in found])
        + row(["---:" if column.value else "---" for column in found])
        + "".join(row([clean(column.entry(line)) for column in found]) for line in table.lines)
    )


def latex(table: Filled) -> str:
    """A table environment that needs no package, a rule between models."""
    found = columns(table)

    def clean(text: str) -> str:
        return "".join(LATEX.get(char, char) for char in one_line(text))

    def row(entries: Sequence[str]) -> str:
        return " & ".join(entries) + r" \\" + "\n"

    body = [
        ("\\hline\n" if first else "") + row([clean(column.entry(line)) for column in found])
        for line, first in _first_of_model(table.lines)
    ]
    caption = clean(f"{table.title.partition(': ')[2]}. {table.about}")
    sides = "".join("r" if column.value else "l" for column in found)
    return (
        "\\begin{table}\n\\centering\n"
        f"\\caption{{{caption}}}\n\\begin{{tabular}}{{{sides}}}\n\\hline\n"
        + row([clean(column.title) for column in found])
        + "".join(body)
        + "\\hline\n\\end{tabular}\n\\end{table}\n"
    )


def as_csv(table: Filled) -> str:
    """All figures in full precision, with a column for each seed; empty where there is none."""
    out = io.StringIO()
    lines = [_figures(line, table.seeds) for line in table.lines]
    heads = list(dict.fromkeys(head for line in lines for head in line))
    writer = csv.DictWriter(out, heads, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _figures(line: Line, seeds: Sequence[int]) -> dict[str, Any]:
    return {
        "data": line.data,
        "model": line.model,
        "setting": line.setting,
        "paper": line.paper,
        "paper_gain": line.paper_gain,
        **_scores("ours", line.ours, seeds),
        "learned": line.learned,
        **_difference("gain", line, line.gain),
        **_scores("control", line.control, seeds),
        **_difference("beyond_control", line, line.beyond),
        **{f"paper_{name}": each.paper for name, each in line.beside.items()},
        **{name: each.ours for name, each in line.beside.items()},
    }


def _scores(prefix: str, scores: Scores | None, seeds: Sequence[int]) -> dict[str, Any]:
    values = scores.values if scores else (None,) * len(seeds)
    return {
        f"{prefix}_recipe": scores.recipe if scores else None,
        f"{prefix}_mean": scores.mean if scores else None,
        f"{prefix}_std": scores.std if scores else None,
        f"{prefix}_diverged": scores.diverged if scores else None,
        f"{prefix}_failed": len(scores.failed) if scores else None,
        f"{prefix}_not_run": len(scores.not_run) if scores else None,
        **{f"{prefix}_seed_{seed}": value for seed, value in zip(seeds, values, strict=True)},
    }


def _difference(prefix: str, line: Line, difference: Difference | None) -> dict[str, Any]:
    keys = ("mean", "low", "high", "p", "p_corrected", "n")
    found = {f"{prefix}_{key}": getattr(difference, key, None) for key in keys}
    return {**found, f"{prefix}_verdict": word(line, difference) or None}
