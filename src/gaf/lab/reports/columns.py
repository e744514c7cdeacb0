"""The table of a comparison, described once: the terminal, Markdown, LaTeX and the page all read this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gaf.lab.reports import numbers
from gaf.lab.study.judge import NOTHING_LEARNED
from gaf.lab.study.results import Comparison, Difference, Row


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        title: its heading.
        about: what it is, in a sentence.
        text: a row's entry.
        note: what belongs to it but is less than it, on a line of its own where there is room.
        value: what to sort by, None to come last; text sorts by itself where it is unset.
    """

    title: str
    about: str
    text: Callable[[Row], str]
    value: Callable[[Row], float | None] | None = None
    note: Callable[[Row], str] = lambda row: ""

    def entry(self, row: Row) -> str:
        """Text and note on one line."""
        return f"{self.text(row)} {self.note(row)}".rstrip()


def columns(comparison: Comparison) -> tuple[Column, ...]:
    """Those that say something in this comparison."""
    n, digits = len(comparison.seeds), numbers.places(comparison)
    name = comparison.score_name
    several = len(comparison.rows) > 1
    found = [
        Column("setting", "What was trained.", lambda row: row.setting),
        Column(
            name,
            f"The final test score, mean ± standard deviation over {_seeds(n)}; "
            f"{'higher' if comparison.higher_is_better else 'lower'} is better.",
            lambda row: _score(row, digits),
            lambda row: row.mean,
            lambda row: _lost(row, n),
        ),
    ]
    if several:
        found += _difference(
            f"the baseline ({comparison.baseline})", "baseline", lambda row: row.vs_baseline, digits
        )
    if any(row.vs_control for row in comparison.rows):
        found += _difference(
            "its matched control, which replaces f by its slope: what f adds to a change of scale",
            "control",
            lambda row: row.vs_control,
            digits,
        )
    gaps = [row.train_test_gap for row in comparison.rows]
    if any(gap is not None for gap in gaps):
        places = numbers.decimals(gaps)
        found.append(
            Column(
                "gap",
                "Test loss minus training loss at the end.",
                lambda row: numbers.fixed(row.train_test_gap, places, sign=True),
                lambda row: row.train_test_gap,
            )
        )
    found.append(
        Column(
            "time a step",
            "Median over seeds, with other runs beside it.",
            lambda row: numbers.duration(row.seconds_per_step),
            lambda row: row.seconds_per_step,
        )
    )
    if several:
        found += [
            Column(
                "steps to baseline",
                "Steps until the baseline's final test score was reached, median over seeds; "
                "in brackets on how many seeds, where not on all.",
                lambda row: numbers.NOTHING if comparison.rows[0].at_chance else _reached(row),
                lambda row: row.steps_to_baseline,
                lambda row: f"({row.reached} of {n})" if 0 < row.reached < n else "",
            ),
            Column("verdict", "Against the baseline, after the correction.", _verdict),
        ]
    return tuple(found)


def _difference(
    what: str, short: str, of: Callable[[Row], Difference | None], digits: int
) -> list[Column]:
    def corrected(row: Row) -> float | None:
        difference = of(row)
        return None if difference is None else difference.p_corrected

    def mean(row: Row) -> float | None:
        difference = of(row)
        return None if difference is None else difference.mean

    return [
        Column(
            f"vs {short}",
            f"Difference to {what}: paired by seed, with its 95 % interval.",
            lambda row: numbers.fixed(mean(row), digits, sign=True),
            mean,
            lambda row: numbers.interval(of(row), digits),
        ),
        Column(
            f"p vs {short}",
            "p-value of that difference, corrected for all differences of this table (Holm).",
            lambda row: numbers.p_value(corrected(row)),
            corrected,
        ),
    ]


def _score(row: Row, digits: int) -> str:
    if row.mean is None:
        return numbers.NOTHING
    spread = "" if row.std is None else f" ± {numbers.fixed(row.std, digits)}"
    return numbers.fixed(row.mean, digits) + spread


def _lost(row: Row, n: int) -> str:
    notes = [f"{row.diverged} of {n} diverged"] if row.diverged else []
    failed = sum(map(bool, row.failed.values()))  # without an error a seed was not run at all
    notes += [f"{failed} of {n} failed"] if failed else []
    notes += [f"{len(row.failed) - failed} of {n} not run"] if len(row.failed) > failed else []
    return f"({', '.join(notes)})" if notes else ""


def _verdict(row: Row) -> str:
    if row.verdict == "baseline" and row.at_chance:
        return f"{row.verdict}, {NOTHING_LEARNED}"
    return NOTHING_LEARNED if row.verdict == "nothing learned" else row.verdict


def nothing_learned(comparison: Comparison) -> str:
    """A sentence where the baseline is at chance, '' where it is not."""
    if not comparison.rows[0].at_chance or comparison.chance is None:
        return ""
    chance = numbers.fixed(comparison.chance, numbers.places(comparison))
    return (
        f"{NOTHING_LEARNED.capitalize()}: no run of {comparison.baseline} has a better "
        f"{comparison.score_name} than a guess that does not look at the input, {chance}. That a setting "
        "does not differ from it, or how soon one reaches it, means nothing."
    )


def _reached(row: Row) -> str:
    if row.steps_to_baseline is not None:
        return f"{row.steps_to_baseline:,.0f}"
    return "never" if row.mean is not None and row.reached == 0 else numbers.NOTHING


def _seeds(n: int) -> str:
    return "1 seed" if n == 1 else f"{n} seeds"
