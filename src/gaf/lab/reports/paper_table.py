"""A filled table of the paper, described once: the terminal, Markdown, LaTeX, CSV and the page read this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gaf.lab.reports import numbers
from gaf.lab.reports.tables import Column, ResultTable, difference_figures
from gaf.lab.study.recipes.paper import WITHOUT
from gaf.lab.study.results import Difference, Filled, FilledCell, Scores

NOTHING_LEARNED = "nothing learned here"
DIGITS = 2  # as the paper prints percents
SHOWN = ("top5",)  # of the figures beside the score: the others are too many for a column each
# What a narrow terminal goes without, in this order.
EXPENDABLE = ("paper top5", "top5", "verdict", "paper's gain", "control")


def paper_table(table: Filled) -> ResultTable[FilledCell]:
    """The long form: a line for each cell of the paper."""
    return ResultTable(
        table.title,
        columns(table),
        table.lines,
        [_figures(line, table.seeds) for line in table.lines],
        EXPENDABLE,
        dropped_notes="intervals",
        about=table.about,
        caption=table.caption or table.title,
        group=lambda line: (line.data, line.model),
        once=("data", "model"),
    )


def columns(table: Filled) -> tuple[Column[FilledCell], ...]:
    """Those that say something in this table."""
    shown: list[Column[FilledCell]] = [
        Column("model", "As the paper calls it.", lambda line: line.model, heads_row=True)
    ]
    if len({line.data for line in table.lines}) > 1:
        shown.insert(0, Column("data", "What the paper trained it on.", lambda line: line.data))
    n = len(table.seeds)
    over = "one run" if n == 1 else f"mean ± standard deviation over {n} seeds"
    shown.extend(
        [
            Column("setting", "The column of the paper's table.", lambda line: line.setting),
            Column(
                "paper",
                "What the paper prints, in percent.",
                lambda line: number(line.paper),
                lambda line: line.paper,
            ),
            Column(
                "ours",
                f"The final test score ({table.score_name}) in percent, {over}.",
                lambda line: scores(line.ours),
                lambda line: line.ours.mean,
            ),
            Column(
                "paper's gain",
                f"In the paper, over {WITHOUT}.",
                lambda line: number(line.paper_gain, sign=True),
                lambda line: line.paper_gain,
            ),
            _difference("our gain", f"Over {WITHOUT}", lambda line: line.gain),
        ]
    )
    if any(line.control for line in table.lines):
        shown.extend(
            [
                Column(
                    "control",
                    "The matched control, in which f is replaced by its slope.",
                    lambda line: scores(line.control),
                    lambda line: line.control.mean if line.control else None,
                ),
                _difference("beyond control", "Over the matched control", lambda line: line.beyond),
            ]
        )
    for name in SHOWN:
        if any(name in line.beside for line in table.lines):
            shown += _beside(name)
    if n > 1:
        shown.append(
            Column(
                "verdict",
                f"Against {WITHOUT}, and in brackets against the control where that differs, corrected "
                f"for all {table.comparisons} differences of the table (Holm).",
                verdict,
            )
        )
    return tuple(shown)


def _difference(
    title: str, what: str, of: Callable[[FilledCell], Difference | None]
) -> Column[FilledCell]:
    def mean(line: FilledCell) -> float | None:
        difference = of(line)
        return difference.mean if difference else None

    return Column(
        title,
        f"{what}, seed by seed, with its 95 % interval where there are several seeds.",
        lambda line: number(mean(line), sign=True),
        mean,
        note=lambda line: numbers.interval(of(line), DIGITS),
        verdict=lambda line: word(line, of(line)),
        difference=lambda line: of(line) if line.learned else None,
    )


def _beside(name: str) -> list[Column[FilledCell]]:
    def papers(line: FilledCell) -> float | None:
        return line.beside[name].paper if name in line.beside else None

    def ours(line: FilledCell) -> float | None:
        return line.beside[name].ours if name in line.beside else None

    return [
        Column(f"paper {name}", f"The paper's {name}.", lambda line: number(papers(line)), papers),
        Column(name, f"Our final {name}, mean over seeds.", lambda line: number(ours(line)), ours),
    ]


def number(value: float | None, sign: bool = False) -> str:
    """A percent as the paper prints it."""
    return numbers.fixed(value, DIGITS, sign)


def scores(runs: Scores | None) -> str:
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
    main, note = main_and_note(runs)
    return f"{main} ({note})" if note else main


def main_and_note(runs: Scores | None) -> tuple[str, str]:
    """The two parts of :func:`scores`; the second is '' where every run went well."""
    if runs is None:
        return numbers.NOTHING, ""
    n = len(runs.values)
    counts = {
        "diverged": runs.diverged,
        "failed": len(runs.failed),
        "not run": len(runs.not_run),
    }
    if n in counts.values():  # all of them
        return next(fate for fate, count in counts.items() if count == n), ""
    return numbers.score(runs.mean, runs.std, DIGITS), numbers.counted(counts, n)


def word(line: FilledCell, difference: Difference | None) -> str:
    """The verdict on a difference; '' where there is none to give."""
    return difference.verdict if difference and line.learned else ""


def verdict(line: FilledCell) -> str:
    """In words; nothing for the baseline."""
    if line.gain is None:
        return "" if line.setting == WITHOUT else numbers.NOTHING
    if not line.learned:
        return NOTHING_LEARNED
    if line.beyond is None or line.beyond.verdict == line.gain.verdict:
        return line.gain.verdict
    return f"{line.gain.verdict} (control: {line.beyond.verdict})"


def _figures(line: FilledCell, seeds: Sequence[int]) -> dict[str, Any]:
    return {
        "data": line.data,
        "model": line.model,
        "setting": line.setting,
        "paper": line.paper,
        "paper_gain": line.paper_gain,
        **_score_figures("ours", line.ours, seeds),
        "learned": line.learned,
        **difference_figures("gain", line.gain),
        "gain_verdict": word(line, line.gain) or None,
        **_score_figures("control", line.control, seeds),
        **difference_figures("beyond_control", line.beyond),
        "beyond_control_verdict": word(line, line.beyond) or None,
        **{f"paper_{name}": beside.paper for name, beside in line.beside.items()},
        **{name: beside.ours for name, beside in line.beside.items()},
    }


def _score_figures(prefix: str, runs: Scores | None, seeds: Sequence[int]) -> dict[str, Any]:
    values = runs.values if runs else (None,) * len(seeds)
    return {
        f"{prefix}_recipe": runs.recipe if runs else None,
        f"{prefix}_mean": runs.mean if runs else None,
        f"{prefix}_std": runs.std if runs else None,
        f"{prefix}_diverged": runs.diverged if runs else None,
        f"{prefix}_failed": len(runs.failed) if runs else None,
        f"{prefix}_not_run": len(runs.not_run) if runs else None,
        **{f"{prefix}_seed_{seed}": value for seed, value in zip(seeds, values, strict=True)},
    }
