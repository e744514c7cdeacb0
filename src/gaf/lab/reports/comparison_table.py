"""The table of a comparison, described once: the terminal, Markdown, LaTeX, CSV and the page read this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gaf.lab.reports import numbers
from gaf.lab.reports.tables import Column, ResultTable, difference_figures, one_line
from gaf.lab.study.results import Comparison, Difference, Row
from gaf.lab.study.statistics import deviation, mean
from gaf.lab.study.words import NOTHING_LEARNED, disagreement

# What a narrow terminal goes without, in this order.
EXPENDABLE = (
    *("gap", "time a step", "steps to baseline", "earlier seeds"),
    *("p vs control", "p vs baseline", "vs control"),
)


def comparison_table(comparison: Comparison) -> ResultTable[Row]:
    """The table of a comparison."""
    return ResultTable(
        comparison.title,
        columns(comparison),
        comparison.rows,
        [_figures(row, comparison) for row in comparison.rows],
        EXPENDABLE,
        warning=nothing_learned(comparison),
    )


def columns(comparison: Comparison) -> tuple[Column[Row], ...]:
    """Those that say something in this comparison."""
    n, digits = len(comparison.seeds), numbers.places(comparison)
    name = comparison.score_name
    several = len(comparison.rows) > 1
    shown: list[Column[Row]] = [
        Column("setting", "What was trained.", lambda row: row.setting, heads_row=True),
        *_rate(comparison),
        Column(
            name,
            f"The final {comparison.score_on} score, mean ± standard deviation over {_seeds(n)}; "
            f"{'higher' if comparison.higher_is_better else 'lower'} is better.",
            lambda row: numbers.score(row.mean, row.std, digits),
            lambda row: row.mean,
            note=lambda row: _lost(row, n),
        ),
    ]
    if several:
        shown += _difference(
            f"the baseline ({comparison.baseline})",
            "baseline",
            lambda row: row.vs_baseline,
            digits,
            drawn=True,
        )
    if any(row.vs_control for row in comparison.rows):
        shown += _difference(
            "its matched control, which replaces f by its slope (Auto's curve by a line): what the bend adds",
            "control",
            lambda row: row.vs_control,
            digits,
        )
    if comparison.earlier:
        shown.append(
            Column(
                "earlier seeds",
                f"Score on {_seeds(len(comparison.earlier))} that an earlier look has used up; "
                "they do not take part in the verdict.",
                lambda row: numbers.score(*_earlier(row), digits),
                lambda row: _earlier(row)[0],
            )
        )
    gaps = [row.train_test_gap for row in comparison.rows]
    if any(gap is not None for gap in gaps):
        places = numbers.decimals(gaps)
        shown.append(
            Column(
                "gap",
                "Test loss minus training loss at the end.",
                lambda row: numbers.fixed(row.train_test_gap, places, sign=True),
                lambda row: row.train_test_gap,
            )
        )
    shown.append(
        Column(
            "time a step",
            "Median over seeds, with other runs beside it.",
            lambda row: numbers.duration(row.seconds_per_step),
            lambda row: row.seconds_per_step,
        )
    )
    if several and comparison.rows[0].reached:  # by itself, where runs record test scores
        shown.append(
            Column(
                "steps to baseline",
                "Steps until the baseline's final test score was reached, median over seeds; "
                "in brackets on how many seeds, where not on all.",
                _reached,
                lambda row: row.steps_to_baseline,
                note=lambda row: f"({row.reached} of {n})" if 0 < row.reached < n else "",
            )
        )
    if several:
        shown.append(
            Column(
                "verdict",
                "Against the baseline, after the correction.",
                _verdict,
                verdict=lambda row: row.verdict,
                reason=lambda row: disagreement(row, comparison),
            )
        )
    return tuple(shown)


def _rate(comparison: Comparison) -> list[Column[Row]]:
    """The learning rate; of a rule that has none to tune there is nothing to say."""
    if all(row.rate is None for row in comparison.rows):
        return []
    curves = comparison.tuning.curves if comparison.tuning else {}

    def rate(row: Row) -> float | None:
        curve = curves.get(row.setting)
        return None if curve and not curve.has_rate else row.rate

    about = "Learning rate: the best of those tried, by validation score."
    return [
        Column(
            "lr",
            about if comparison.tuning else "Learning rate, as given.",
            lambda row: numbers.NOTHING if rate(row) is None else f"{rate(row):.3g}",
            rate,
        )
    ]


def _earlier(row: Row) -> tuple[float | None, float | None]:
    """Mean and standard deviation of the scores of earlier seeds."""
    scores = [score for score in row.earlier if score is not None]
    return (mean(scores), deviation(scores)) if scores else (None, None)


def _difference(
    what: str,
    short: str,
    of: Callable[[Row], Difference | None],
    digits: int,
    *,
    drawn: bool = False,
) -> list[Column[Row]]:
    def corrected(row: Row) -> float | None:
        difference = of(row)
        return None if difference is None else difference.p_corrected

    def size(row: Row) -> float | None:
        difference = of(row)
        return None if difference is None else difference.mean

    return [
        Column(
            f"vs {short}",
            f"Difference to {what}: paired by seed, with its 95 % interval.",
            lambda row: numbers.fixed(size(row), digits, sign=True),
            size,
            note=lambda row: numbers.interval(of(row), digits),
            difference=of if drawn else lambda row: None,
        ),
        Column(
            f"p vs {short}",
            "p-value of that difference, corrected for all differences of this table (Holm).",
            lambda row: numbers.p_value(corrected(row)),
            corrected,
        ),
    ]


def _lost(row: Row, n: int) -> str:
    failed = sum(map(bool, row.failed.values()))  # without an error a seed was not run at all
    counts = {"diverged": row.diverged, "failed": failed, "not run": len(row.failed) - failed}
    note = numbers.counted(counts, n)
    return f"({note})" if note else ""


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


def _figures(row: Row, comparison: Comparison) -> dict[str, Any]:
    return {
        "setting": one_line(row.setting),
        "kind": row.kind,
        "lr": row.rate,
        "second_lr": row.second_rate,
        "mean": row.mean,
        "std": row.std,
        "diverged": row.diverged,
        "failed": len(row.failed),
        **difference_figures("vs_baseline", row.vs_baseline),
        "control": one_line(row.control or ""),
        **difference_figures("vs_control", row.vs_control),
        "train_test_gap": row.train_test_gap,
        "seconds_per_step": row.seconds_per_step,
        "steps_to_baseline": row.steps_to_baseline,
        "reached": row.reached,
        "verdict": row.verdict,
        "reason": disagreement(row, comparison),
        **{f"seed_{seed}": score for seed, score in zip(comparison.seeds, row.scores, strict=True)},
        **_seed_figures("second_lr_seed", comparison.seeds, row.second_scores),
        **_seed_figures("earlier_seed", comparison.earlier, row.earlier),
    }


def _seed_figures(
    name: str, seeds: Sequence[int], scores: Sequence[float | None]
) -> dict[str, float | None]:
    """Scores of seeds, where there are any."""
    return {f"{name}_{seed}": score for seed, score in zip(seeds, scores, strict=False)}
