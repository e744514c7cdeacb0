"""Scores over the learning rate, and against the number of rates tried: as numbers, and as plotly reads them.

The terminal and notebooks draw the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gaf.lab.reports.html import CurvePlot, plotly_text
from gaf.lab.reports.numbers import rounded
from gaf.lab.reports.style import GREY, Style, faint
from gaf.lab.study.results import Comparison, RuleCurve, Tuning

LOG_FROM = 20.0  # a logarithmic axis of scores where the largest is so many times the smallest
MARGIN = 0.15  # decades beside the rates
BELOW = 4.0  # the close-up ends so many times the window's depth below its threshold
OTHER = Style(GREY, "solid", "", 1.0, True)  # of a rule that was tuned, but is not in the table


@dataclass(frozen=True)
class RatePoint:
    """A rate with the mean, the lowest and the highest score of its trials."""

    rate: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class RuleLine:
    """A rule as it is drawn: rates with a finite score, rates at which every run diverged or failed."""

    setting: str
    curve: RuleCurve
    points: tuple[RatePoint, ...]
    lost: tuple[float, ...]

    def mean_at(self, rate: float) -> float | None:
        """The mean at a rate that was tried."""
        return next((point.mean for point in self.points if point.rate == rate), None)

    def between(self, rate: float) -> float | None:
        """The mean at any rate, linear in log(rate); None beyond the rates that were tried.

        A rate at which all runs were lost counts as None, and so does everything on the way to it.
        """
        rates = sorted((*(point.rate for point in self.points), *self.lost))
        if not rates or not rates[0] <= rate <= rates[-1]:
            return None
        right = next(tried for tried in rates if tried >= rate)
        left = max((tried for tried in rates if tried <= rate), default=right)
        start, end = self.mean_at(left), self.mean_at(right)
        if start is None or end is None:
            return None
        if left == right:
            return start
        share = math.log(rate / left) / math.log(right / left)
        return start + share * (end - start)


@dataclass(frozen=True)
class RateAxis:
    """The learning rates of all rules on one logarithmic axis."""

    low: float
    high: float

    def place(self, rate: float) -> float:
        """Where a rate stands, from 0 at the lowest to 1 at the highest.

        Example:
            >>> RateAxis(0.01, 1.0).place(0.1)
            0.5
        """
        if self.low == self.high:
            return 0.5
        return (math.log(rate) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))

    def rate(self, place: float) -> float:
        """The rate at a place."""
        start, end = math.log(self.low), math.log(self.high)
        return math.exp(start + place * (end - start))

    def decades(self) -> list[float]:
        """Powers of ten on the axis, at most ten of them.

        Example:
            >>> RateAxis(0.004, 2.0).decades()
            [0.01, 0.1, 1.0]
        """
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        step = max(1, math.ceil((last - first + 1) / 10))
        return [float(f"1e{power}") for power in range(first, last + 1, step)]


def rule_lines(tuning: Tuning) -> list[RuleLine]:
    """Every rule that was tuned, in order."""
    return [_line(setting, curve) for setting, curve in tuning.curves.items()]


def _line(setting: str, curve: RuleCurve) -> RuleLine:
    points, lost = [], []
    for trial in curve.trials:
        scores = [score for score in trial.scores if score is not None and math.isfinite(score)]
        if trial.mean is None or not math.isfinite(trial.mean):
            lost.append(trial.rate)
        else:
            scores = scores or [trial.mean]
            points.append(RatePoint(trial.rate, trial.mean, min(scores), max(scores)))
    return RuleLine(setting, curve, tuple(points), tuple(lost))


def rate_axis(tuning: Tuning) -> RateAxis | None:
    """From the lowest rate that was tried to the highest; None where no rule has a rate."""
    rates = [
        rate
        for curve in tuning.curves.values()
        if curve.has_rate
        for rate in (curve.usual, *(trial.rate for trial in curve.trials))
    ]
    return RateAxis(min(rates), max(rates)) if rates else None


def rate_curves(comparison: Comparison, styles: dict[str, Style]) -> list[CurvePlot]:
    """The curve over the learning rate: whole, and close to the threshold of the windows."""
    tuning = comparison.tuning
    axis = rate_axis(tuning) if tuning else None
    if tuning is None or axis is None:
        return []
    lines = rule_lines(tuning)
    means = [point.mean for line in lines for point in line.points]
    if not means:
        return []
    better = "higher" if comparison.higher_is_better else "lower"
    whole, near = _whole_range(means), _close_range(means, tuning, comparison.higher_is_better)
    title = f"Validation {comparison.score_name} over the learning rate"
    figures = [_figure(title, f"{better} is better", lines, axis, whole, comparison, styles)]
    if near:
        about = "the same, near the threshold of the windows"
        figures.append(_figure("Close-up", about, lines, axis, near, comparison, styles))
    return figures


def _whole_range(means: list[float]) -> dict[str, Any]:
    low, high = min(means), max(means)
    if low > 0 and high > LOG_FROM * low and high > 1:  # a loss
        return {"type": "log", "range": [math.log10(low) - 0.05, math.log10(high) + 0.05]}
    pad = 0.04 * (high - low) or 0.04 * abs(high) or 1.0
    return {"range": [low - pad, high + pad]}


def _close_range(
    means: list[float], tuning: Tuning, higher_is_better: bool
) -> dict[str, Any] | None:
    """None where there is no threshold, or where the whole range is as close."""
    threshold, within = tuning.threshold, tuning.within
    if threshold is None or not (math.isfinite(threshold) and 0 < within < math.inf):
        return None
    best = max(means) if higher_is_better else min(means)
    worst = threshold - BELOW * within if higher_is_better else threshold + BELOW * within
    ends = sorted((worst, best))
    pad = 0.05 * (ends[1] - ends[0])
    if not math.isfinite(pad) or max(means) - min(means) < 2 * (ends[1] - ends[0]):
        return None
    return {"range": [ends[0] - pad, ends[1] + pad]}


def _figure(
    title: str,
    about: str,
    lines: list[RuleLine],
    axis: RateAxis,
    scores: dict[str, Any],
    comparison: Comparison,
    styles: dict[str, Style],
) -> CurvePlot:
    assert comparison.tuning is not None
    # the worst score in sight, where lost trials stand
    edge = scores["range"][0 if comparison.higher_is_better else 1]
    worst = 10**edge if scores.get("type") == "log" else edge
    data: list[dict[str, Any]] = []
    for line in lines:
        shown = line.setting in styles
        style = styles.get(line.setting, OTHER)
        common: dict[str, Any] = {"type": "scatter", "visible": style.shown}
        if shown:
            common["meta"] = line.setting
        data += _traces(line, axis, worst, style, common)
    decades = axis.decades()
    layout: dict[str, Any] = {
        "xaxis": {
            "type": "log",
            "range": [math.log10(axis.low) - MARGIN, math.log10(axis.high) + MARGIN],
            "title": {"text": "learning rate"},
            "tickvals": decades,
            "ticktext": [f"{rate:g}" for rate in decades],
        },
        "yaxis": scores,
    }
    threshold = comparison.tuning.threshold
    if threshold is not None and math.isfinite(threshold):
        layout["shapes"] = [horizontal(threshold)]
    return CurvePlot(title, about, data, layout)


def horizontal(y: float) -> dict[str, Any]:
    """A thin line across a plot, as plotly reads it."""
    line = {"color": GREY, "width": 1}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def _traces(
    line: RuleLine, axis: RateAxis, worst: float, style: Style, common: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    name = plotly_text(line.setting)
    points = line.points
    if not line.curve.has_rate:  # at every rate the same
        points = tuple(
            RatePoint(rate, point.mean, point.low, point.high)
            for point in points
            for rate in (axis.low, axis.high)
        )
    x = [rounded(point.rate, 6) for point in points]
    if len(points) > 1 and any(point.low < point.high for point in points):
        edge = {**common, "x": x, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        fill = {"fill": "tonexty", "fillcolor": faint(style.colour, 0.1)}
        yield {**edge, "y": [rounded(point.low, 5) for point in points]}
        yield {**edge, "y": [rounded(point.high, 5) for point in points], **fill}
    if points:
        yield {
            **common,
            "x": x,
            "y": [rounded(point.mean, 5) for point in points],
            "name": name,
            "mode": "lines+markers" if line.curve.has_rate else "lines",
            "line": {"color": style.colour, "dash": style.dash, "width": style.width},
            "marker": {"color": style.colour, "size": 4},
            "hovertemplate": "lr %{x:.3~g}: %{y:.4~g}" if line.curve.has_rate else "%{y:.4~g}",
        }
    if not line.curve.has_rate:
        return
    marks = (("circle-open", line.curve.usual, "usual"), ("circle", line.curve.chosen, "chosen"))
    for symbol, rate, what in marks:
        mean = None if rate is None else line.mean_at(rate)
        if rate is not None and mean is not None:
            yield {
                **common,
                "x": [rounded(rate, 6)],
                "y": [rounded(mean, 5)],
                "name": name,
                "mode": "markers",
                "marker": {
                    "symbol": symbol,
                    "color": style.colour,
                    "size": 14 if symbol == "circle-open" else 9,
                    "line": {"color": style.colour, "width": 1.5},
                },
                "hovertemplate": f"{what} lr %{{x:.3~g}}: %{{y:.4~g}}",
            }
    if line.lost:
        yield {
            **common,
            "x": [rounded(rate, 6) for rate in line.lost],
            "y": [worst] * len(line.lost),
            "name": name,
            "mode": "markers",
            "marker": {"symbol": "x", "color": style.colour, "size": 7},
            "cliponaxis": False,
            "hovertemplate": "lr %{x:.3~g}: every run diverged or failed",
        }


def budget_curves(comparison: Comparison, styles: dict[str, Style]) -> list[CurvePlot]:
    """The expected best score of k rates; a rule without a rate is a constant."""
    tuning = comparison.tuning
    if tuning is None:
        return []
    most = max((len(curve.best_of) for curve in tuning.curves.values()), default=0)
    data = []
    for setting, curve in tuning.curves.items():
        best_of = [value if math.isfinite(value) else None for value in curve.best_of]
        if not curve.has_rate:
            best_of = best_of[:1] * most
        if not any(value is not None for value in best_of):
            continue
        style = styles.get(setting, OTHER)
        trace: dict[str, Any] = {
            "type": "scatter",
            "visible": style.shown,
            "x": list(range(1, len(best_of) + 1)),
            "y": [None if value is None else rounded(value, 5) for value in best_of],
            "name": plotly_text(setting),
            "mode": "lines+markers" if curve.has_rate else "lines",
            "line": {"color": style.colour, "dash": style.dash, "width": style.width},
            "marker": {"color": style.colour, "size": 5},
            "hovertemplate": "best of %{x}: %{y:.4~g}",
        }
        data.append({**trace, "meta": setting} if setting in styles else trace)
    if not data or most < 2:
        return []
    layout = {"xaxis": {"title": {"text": "learning rates tried"}, "dtick": max(1, most // 10)}}
    title = f"Expected best validation {comparison.score_name}"
    return [CurvePlot(title, "of so many rates of the grid, drawn at random", data, layout)]
