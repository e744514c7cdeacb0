"""The page of a comparison: one HTML file, readable on a phone and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gaf.lab.reports import html, numbers
from gaf.lab.reports.comparison_parts import (
    budget_rows,
    cost_words,
    earlier_words,
    listed,
    seeds_rows,
    threshold_words,
    window_rows,
)
from gaf.lab.reports.comparison_table import columns, comparison_table
from gaf.lab.reports.curves import learning_curves, shapes, share_curves
from gaf.lab.reports.history import RunHistory, histories
from gaf.lab.reports.html import PAGE
from gaf.lab.reports.rate_curves import budget_curves, rate_axis, rate_curves
from gaf.lab.reports.style import styles
from gaf.lab.study.results import Comparison, Row
from gaf.lab.study.words import answer

ORDER = ("failed", "better", "worse", "no difference", "nothing learned", "baseline")


def write_page(comparison: Comparison, folder: Path) -> Path:
    """Write the page of a comparison into its folder, whole or not at all.

    Args:
        comparison: what was found; the curves are read from the run folders it names.
        folder: the comparison's own, where its run folders are found.

    Raises:
        GafError: the records of a run are damaged; the message is one sentence.
    """
    return html.write(render(comparison, histories(comparison, folder)), folder / PAGE)


def render(comparison: Comparison, runs: dict[str, list[RunHistory]]) -> str:
    """The page as text."""
    looks, digits = styles(comparison), numbers.places(comparison)
    counts, budgets = budget_rows(comparison)
    return html.render(
        "comparison.html.jinja",
        {
            "rates": rate_curves(comparison, looks),
            "budget": budget_curves(comparison, looks),
            "curves": learning_curves(comparison, runs, looks),
            "shares": share_curves(runs, looks),
            "shapes": shapes(runs, looks),
        },
        comparison=comparison,
        table=comparison_table(comparison),
        headline=answer(comparison) if len(comparison.rows) > 1 else tally(comparison),
        tally=tally(comparison) if len(comparison.rows) > 1 else "",
        windows=window_rows(comparison),
        axis=_ticks(comparison),
        threshold=threshold_words(comparison),
        budget_heads=("rule", *(f"best of {count}" for count in counts)),
        budgets=budgets,
        cost=cost_words(comparison),
        earlier=earlier_words(comparison),
        planned=seeds_rows(comparison),
        verdicts=sorted(comparison.rows, key=_weight),
        failures=_failures(comparison),
        lost=_lost(comparison, runs),
        styles=looks,
        settings=list(_settings(comparison)),
        runs=list(_runs(comparison, digits)),
    )


def tally(comparison: Comparison) -> str:
    """How many settings are better, worse and neither; of one alone its score."""
    n = len(comparison.seeds)
    others = [row for row in comparison.rows if row.verdict != "baseline"]
    if not others:
        score = next(
            column for column in columns(comparison) if column.title == comparison.score_name
        )
        text = f"{score.title} {score.entry(comparison.rows[0])} at the end"
        return text + (f", over {n} seeds." if n > 1 else ".")
    counts = {verdict: sum(row.verdict == verdict for row in others) for verdict in ORDER}
    parts = [
        f"{counts['better'] or 'none'} better",
        *(f"{counts[verdict]} {verdict}" for verdict in ("worse", "failed") if counts[verdict]),
        *([f"{counts['no difference']} with no difference"] if counts["no difference"] else []),
        *([f"{counts['nothing learned']} at chance"] if counts["nothing learned"] else []),
    ]
    seeds = "1 seed" if n == 1 else f"{n} seeds"
    what = "1 setting" if len(others) == 1 else f"{len(others)} settings"
    return f"Of {what} against {comparison.baseline} over {seeds}: {', '.join(parts)}."


def _failures(comparison: Comparison) -> list[tuple[str, str]]:
    """Errors, each once for a setting, with its seeds."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for run in comparison.runs:
        if run.status == "failed":
            seeds.setdefault((run.setting, run.error), []).append(run.seed)
    return [
        (f"{setting}, {listed(list(dict.fromkeys(several)))}", error)
        for (setting, error), several in seeds.items()
    ]


def _ticks(comparison: Comparison) -> list[tuple[float, str]]:
    """Powers of ten on the axis of the windows: place from 0 to 1, and label."""
    axis = rate_axis(comparison.tuning) if comparison.tuning else None
    return [(axis.place(rate), f"{rate:g}") for rate in axis.decades()] if axis else []


def _weight(row: Row) -> tuple[int, float]:
    """What is better or worse by most comes first; the others keep their order."""
    size = 0.0
    if row.verdict in ("better", "worse") and row.vs_baseline is not None:
        size = abs(row.vs_baseline.mean)
    return ORDER.index(row.verdict), -size


def _lost(comparison: Comparison, runs: dict[str, list[RunHistory]]) -> str:
    """What the curves lack."""
    drawn = [run for run in comparison.runs if run.rate is None]  # those at the best rate
    there = sum(map(len, runs.values()))
    lost = sum(run.status != "failed" for run in drawn) - there
    text = ""
    recorded = there or comparison.rows[0].reached  # a script has scores at its end alone
    if lost > 0 and recorded:
        text += f" The records of {lost} of {len(drawn)} runs were not found."
    if any(run.diverged is not None for several in runs.values() for run in several):
        text += " A run that diverged ends early, and is not in the mean from there on."
    return text


def _settings(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """What each setting changes in the config of the baseline."""
    for row in comparison.rows:
        changes = ", ".join(f"{key} = {value}" for key, value in row.changes.items())
        also = f" (also: {', '.join(row.also)})" if row.also else ""
        nothing = numbers.NOTHING
        yield row.setting + also, row.kind, changes or nothing, row.control or nothing


def _runs(comparison: Comparison, digits: int) -> Iterator[tuple[str, ...]]:
    """Every run with its folder, and the error of those that failed."""
    for run in comparison.runs:
        score = numbers.NOTHING if run.score is None else f"{run.score:.{digits}f}"
        place = f"{run.folder}: {run.error}" if run.error else run.folder
        setting = run.setting if run.rate is None else f"{run.setting}, next best lr {run.rate:.3g}"
        yield setting, str(run.seed), run.status, score, place
