"""A filled table of the paper, described once: the terminal, Markdown, LaTeX and the page all read this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gaf.lab.reports import numbers
from gaf.lab.study.recipes.paper import WITHOUT
from gaf.lab.study.results import Difference, Filled, Line, Scores

NOTHING_LEARNED = "nothing learned here"
DIGITS = 2  # as the paper prints percents
SHOWN = ("top5",)  # of the figures beside the score: the others are too many for a column each


@dataclass(frozen=True)
class TableColumn:
    """A column: heading, what it is, a line's entry, and what to sort by where that is a number.

    ``note`` belongs to the entry but is less than it: a narrow terminal goes without.
    """

    title: str
    about: str
    text: Callable[[Line], str]
    value: Callable[[Line], float | None] | None = None
    difference: Callable[[Line], Difference | None] = lambda line: None
    note: Callable[[Line], str] = lambda line: ""

    def entry(self, line: Line) -> str:
        """Text and note."""
        return f"{self.text(line)} {self.note(line)}".rstrip()


def columns(table: Filled) -> tuple[TableColumn, ...]:
    """Those that say something in this table."""
    found = [TableColumn("model", "As the paper calls it.", lambda line: line.model)]
    if len({line.data for line in table.lines}) > 1:
        found.insert(
            0, TableColumn("data", "What the paper trained it on.", lambda line: line.data)
        )
    n = len(table.seeds)
    over = "one run" if n == 1 else f"mean ± standard deviation over {n} seeds"
    found += [
        TableColumn("setting", "The column of the paper's table.", lambda line: line.setting),
        TableColumn(
            "paper",
            "What the paper prints, in percent.",
            lambda line: number(line.paper),
            lambda line: line.paper,
        ),
        TableColumn(
            "ours",
            f"The final test score ({table.score_name}) in percent, {over}.",
            lambda line: scores(line.ours),
            lambda line: line.ours.mean,
        ),
        TableColumn(
            "paper's gain",
            f"In the paper, over {WITHOUT}.",
            lambda line: number(line.paper_gain, sign=True),
            lambda line: line.paper_gain,
        ),
        _difference("our gain", f"Over {WITHOUT}", lambda line: line.gain),
    ]
    if any(line.control for line in table.lines):
        found += [
            TableColumn(
                "control",
                "The matched control, in which f is replaced by its slope.",
                lambda line: scores(line.control),
                lambda line: line.control.mean if line.control else None,
            ),
            _difference("beyond control", "Over the matched control", lambda line: line.beyond),
        ]
    for name in SHOWN:
        if any(name in line.beside for line in table.lines):
            found += _beside(name)
    if n > 1:
        found.append(
            TableColumn(
                "verdict",
                f"Against {WITHOUT}, and in brackets against the control where that differs, corrected "
                f"for all {table.comparisons} differences of the table (Holm).",
                verdict,
            )
        )
    return tuple(found)


def _difference(title: str, what: str, of: Callable[[Line], Difference | None]) -> TableColumn:
    def mean(line: Line) -> float | None:
        found = of(line)
        return found.mean if found else None

    return TableColumn(
        title,
        f"{what}, seed by seed, with its 95 % interval where there are several seeds.",
        lambda line: number(mean(line), sign=True),
        mean,
        of,
        lambda line: numbers.interval(of(line), DIGITS),
    )


def _beside(name: str) -> list[TableColumn]:
    def papers(line: Line) -> float | None:
        return line.beside[name].paper if name in line.beside else None

    def ours(line: Line) -> float | None:
        return line.beside[name].ours if name in line.beside else None

    return [
        TableColumn(
            f"paper {name}", f"The paper's {name}.", lambda line: number(papers(line)), papers
        ),
        TableColumn(
            name, f"Our final {name}, mean over seeds.", lambda line: number(ours(line)), ours
        ),
    ]


def number(value: float | None, sign: bool = False) -> str:
    """A percent as the paper prints it."""
    return numbers.fixed(value, DIGITS, sign)


def scores(found: Scores | None) -> str:
    """Mean and spread, and what became of runs that have no score or a bad one.

    Example:
        >>> scores(
        ...     Scores(
        ...         recipe="r", values=(71.0, None, 0.0), mean=35.5, std=50.2, diverged=1,
        ...         failed={}, not_run=(1,), folders={},
        ...     )
        ... )
        '35.50 ± 50.20 (1 of 3 diverged, 1 of 3 not run)'
    """
    main, note = main_and_note(found)
    return f"{main} ({note})" if note else main


def main_and_note(found: Scores | None) -> tuple[str, str]:
    """The two parts of :func:`scores`; the second is '' where every run went well."""
    if found is None:
        return numbers.NOTHING, ""
    n = len(found.values)
    counts = {
        "diverged": found.diverged,
        "failed": len(found.failed),
        "not run": len(found.not_run),
    }
    if n in counts.values():  # all of them
        return next(word for word, count in counts.items() if count == n), ""
    note = ", ".join(f"{count} of {n} {word}" for word, count in counts.items() if count)
    if found.mean is None:
        return numbers.NOTHING, note
    spread = f" ± {number(found.std)}" if found.std is not None else ""
    return f"{number(found.mean)}{spread}", note


def word(line: Line, difference: Difference | None) -> str:
    """The verdict on a difference; '' where there is none to give."""
    return difference.verdict if difference and line.learned else ""


def verdict(line: Line) -> str:
    """In words; nothing for the baseline."""
    if line.gain is None:
        return "" if line.setting == WITHOUT else numbers.NOTHING
    if not line.learned:
        return NOTHING_LEARNED
    if line.beyond is None or line.beyond.verdict == line.gain.verdict:
        return line.gain.verdict
    return f"{line.gain.verdict} (control: {line.beyond.verdict})"
