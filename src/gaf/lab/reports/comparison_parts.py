"""What a comparison shows beside its table, as rows of text: windows, budget, cost, seeds to plan.

The terminal, the page and notebooks read this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gaf.common.errors import GafError
from gaf.lab.reports import numbers
from gaf.lab.reports.rate_curves import RateAxis, rate_axis
from gaf.lab.study.protocol import point
from gaf.lab.study.results import Bound, Comparison, RuleCurve
from gaf.lab.study.words import seeds_to_plan

SIGNS: dict[Bound, str] = {"exact": "", "at least": "≥ ", "at most": "≤ ", "unknown": ""}
SHOWN_BUDGETS = (1, 3, 7)
POINTS = (0.5, 1.0, 2.0, 5.0)  # differences to plan for: points, or percent of the baseline's score


@dataclass(frozen=True)
class WindowRow:
    """The window of a rule as text; ``bar`` is where it is drawn, None for a rule without a rate."""

    setting: str
    rates: str
    factor: str
    widened: str
    shifted: str
    best: str
    bar: WindowBar | None


@dataclass(frozen=True)
class WindowBar:
    """Places on the axis of all rates, from 0 to 1: the rates tried, the window, the marked rates."""

    tried: tuple[float, float]
    window: tuple[float, float] | None
    usual: float
    chosen: float | None


def window_rows(comparison: Comparison) -> list[WindowRow]:
    """A row for each rule that was tuned."""
    tuning = comparison.tuning
    if tuning is None:
        return []
    axis, digits = rate_axis(tuning), numbers.places(comparison)
    return [_window_row(setting, curve, axis, digits) for setting, curve in tuning.curves.items()]


def _window_row(setting: str, curve: RuleCurve, axis: RateAxis | None, digits: int) -> WindowRow:
    best = next((trial.mean for trial in curve.trials if trial.rate == curve.chosen), None)
    text = numbers.fixed(best, digits)
    if curve.has_rate and curve.chosen is not None and best is not None:
        text += f" at {curve.chosen:.3g}"
    window, nothing = curve.window, numbers.NOTHING
    if window is None or not curve.has_rate:
        why = "no learning rate" if not curve.has_rate else "none" if best is not None else "failed"
        return WindowRow(setting, why, nothing, nothing, nothing, text, _bar(curve, axis))
    low = f"below {window.low:.2g}" if window.open_low else f"{window.low:.2g}"
    high = f"above {window.high:.2g}" if window.open_high else f"{window.high:.2g}"
    factor = f"{'≥ ' if window.open_low or window.open_high else ''}{window.factor:.2g}"
    return WindowRow(
        setting,
        f"{low} to {high}",
        factor + _interval(window.interval),
        _times(window.widened, window.widened_is) + _interval(window.widened_interval),
        _times(window.shifted, window.shifted_is),
        text,
        _bar(curve, axis),
    )


def _interval(ends: tuple[float, float] | None) -> str:
    return " [{:.2g}, {:.2g}]".format(*ends) if ends else ""


def _times(value: float | None, bound: Bound) -> str:
    if value is None or bound == "unknown":
        return numbers.NOTHING
    return f"{SIGNS[bound]}× {value:.2g}"


def _bar(curve: RuleCurve, axis: RateAxis | None) -> WindowBar | None:
    if axis is None or not curve.has_rate:
        return None
    rates = [trial.rate for trial in curve.trials]
    window = curve.window

    def inside(rate: float) -> float:
        return min(1.0, max(0.0, axis.place(rate)))

    return WindowBar(
        (inside(min(rates)), inside(max(rates))),
        (inside(window.low), inside(window.high)) if window else None,
        inside(curve.usual),
        None if curve.chosen is None else inside(curve.chosen),
    )


def threshold_words(comparison: Comparison) -> str:
    """What a window asks for.

    For example "top1 of at least 0.9690, the best of tuned sgd minus 1 point".
    """
    tuning = comparison.tuning
    if tuning is None or tuning.threshold is None:
        return ""
    asked = "at least" if comparison.higher_is_better else "at most"
    sign = "minus" if comparison.higher_is_better else "plus"
    size = f"{tuning.within:.3g}"
    if comparison.is_share:
        points = 100 * tuning.within
        size = f"{points:.3g} point{'' if points == 1 else 's'}"
    threshold = numbers.fixed(tuning.threshold, numbers.places(comparison))
    return (
        f"{comparison.score_name} of {asked} {threshold}, the best of tuned {comparison.baseline} "
        f"{sign} {size}"
    )


def budget_rows(comparison: Comparison) -> tuple[list[int], list[tuple[str, ...]]]:
    """Some numbers of rates, and for each rule the expected best validation score of so many."""
    tuning = comparison.tuning
    if tuning is None:
        return [], []
    most = max((len(curve.best_of) for curve in tuning.curves.values()), default=0)
    counts = [count for count in SHOWN_BUDGETS if count < most] + ([most] if most else [])
    digits = numbers.places(comparison)
    rows = []
    for setting, curve in tuning.curves.items():
        values = [_best_of(curve, count) for count in counts]
        rows.append((setting, *(numbers.fixed(value, digits) for value in values)))
    return counts, rows


def _best_of(curve: RuleCurve, count: int) -> float | None:
    if not curve.has_rate:
        count = 1
    return curve.best_of[count - 1] if count <= len(curve.best_of) else None


def cost_words(comparison: Comparison) -> str:
    """What the runs took, in a sentence; '' where it was not recorded."""
    cost = comparison.cost
    if cost is None:
        return ""
    runs = f"{cost.finals:,} runs for the table"
    if cost.trials:
        runs = f"{cost.trials:,} trials to tune the learning rates, {runs}"
    return f"{runs}: {cost.steps:,} steps, {numbers.long_duration(cost.seconds)} of one worker."


def earlier_words(comparison: Comparison) -> str:
    """Which seeds an earlier look has used up; '' where there was none."""
    if not comparison.earlier:
        return ""
    return (
        f"An earlier look has seen {listed(comparison.earlier)}. The verdicts take "
        f"{listed(comparison.seeds)} only; the earlier seeds are shown, and decide nothing."
    )


def listed(seeds: Sequence[int]) -> str:
    """Seeds as one says them.

    Example:
        >>> listed((4,)), listed((0, 1, 2)), listed((0, 2))
        ('seed 4', 'seeds 0 to 2', 'seeds 0, 2')
    """
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seeds {', '.join(map(str, seeds))}"


def seeds_rows(comparison: Comparison) -> list[tuple[str, str]]:
    """Differences that one may want to find, and how many seeds to plan for each."""
    share, mean = comparison.is_share, comparison.rows[0].mean
    if not share and not (mean and math.isfinite(mean)):
        return []
    unit = point(share, mean)
    rows = []
    for points in POINTS:
        try:
            seeds = seeds_to_plan(comparison, points * unit)
        except GafError:  # more than anybody runs
            continue
        if seeds is None:
            return []
        name = f"{points:g} point{'' if points == 1 else 's'}"
        if not share:
            name = f"{points * unit:.2g} ({points:g} %)"
        rows.append((name, f"{seeds:,}"))
    return rows
