"""The table of a comparison as text: for a terminal, Markdown, LaTeX, and CSV for machines."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from rich.table import Table
from rich.text import Text

from gaf.experiments.comparison import Comparison, Difference, Row
from gaf.reports.columns import Column, columns

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
}


def terminal(comparison: Comparison) -> Table:
    """For a rich console."""
    table = Table(title=one_line(comparison.title), title_justify="left", pad_edge=False)
    found = columns(comparison)
    for column in found:
        table.add_column(
            Text(one_line(column.title)),
            justify="right" if column.value else "left",
            overflow="fold",
        )
    for row in comparison.rows:
        style = COLOURS.get(row.verdict, "")
        table.add_row(
            *(
                Text(one_line(column.entry(row)), style if _is_verdict(column) else "")
                for column in found
            )
        )
    return table


def _is_verdict(column: Column) -> bool:
    return column.title == "verdict"


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
    keys = ("mean", "low", "high", "p", "p_corrected", "n", "seeds_needed")
    return {f"vs_{to}_{key}": getattr(difference, key, None) for key in keys}


def one_line(text: str) -> str:
    r"""Text without line breaks or codes that a terminal would obey.

    Example:
        >>> one_line("a\x1b[31m\nb")
        'a [31m b'
    """
    return "".join(char if char.isprintable() else " " for char in text)
