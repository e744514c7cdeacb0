"""The figures of a comparison, as plotly reads them: over the steps of training, and what f saw.

Over the steps there is a mean over seeds and a band around it. f is drawn over the histogram of what it acted
on: does it only rescale, does it bend, is it saturated?
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import gaf
from gaf.functions import Adaptive, as_activation
from gaf.lab.reports.history import Band, Curve, RunHistory, band
from gaf.lab.reports.html import CurvePlot, plotly_text
from gaf.lab.reports.numbers import rounded
from gaf.lab.reports.style import GREY, INK, Style, faint, vertical
from gaf.lab.study.results import Comparison
from gaf.optim.observation import BINS_A_DECADE

SHARES = {
    "enlarged": "made larger by f",
    "restrained": "made smaller by f",
    "saturated": "within 5 % of f's bound",
}
LOG_FROM = 20.0  # a logarithmic axis where the largest value is so many times the smallest
BEYOND = 4.0  # runs that diverged may stretch an axis so far before it is cut


def learning_curves(
    comparison: Comparison, runs: dict[str, list[RunHistory]], styles: dict[str, Style]
) -> list[CurvePlot]:
    """Test score and training loss; what was not recorded is left out."""
    name = comparison.score_name
    better = "higher" if comparison.higher_is_better else "lower"
    figures = [
        _over_steps(f"Test {name}", f"{better} is better", runs, styles, lambda run: run.score),
        _over_steps(
            "Training loss", "mean between two records", runs, styles, lambda run: run.loss
        ),
    ]
    calm = {name for name, several in runs.items() if all(run.diverged is None for run in several)}
    for figure in figures:
        _scale(figure, calm)
    return [figure for figure in figures if figure.data]


def share_curves(runs: dict[str, list[RunHistory]], styles: dict[str, Style]) -> list[CurvePlot]:
    """Which part of the elements f enlarges, restrains, saturates."""
    figures = []
    for name, about in SHARES.items():

        def curve(run: RunHistory, name: str = name) -> Curve:
            return {entry["step"]: float(entry[name]) for entry in run.gradients if name in entry}

        figure = _over_steps(name.capitalize(), about, runs, styles, curve)
        top = max((y for trace in figure.data for y in trace["y"]), default=0.0)
        top = min(1.03, max(0.01, 1.1 * top))
        figure.layout["yaxis"] = {
            "tickformat": ".0%" if top > 0.05 else ".1%",
            "range": [-0.03 * top, top],
        }
        figures += [figure] if figure.data else []
    return figures


def _over_steps(
    title: str,
    about: str,
    runs: dict[str, list[RunHistory]],
    styles: dict[str, Style],
    curve: Callable[[RunHistory], Curve],
) -> CurvePlot:
    data = []
    for setting, several in runs.items():
        curves = [steps for run in several if (steps := curve(run))]
        over = band(curves)
        # on its way to inf a run is at any size: a band would hide the other settings
        banded = len(curves) > 1 and all(run.diverged is None for run in several)
        if over.steps:
            data += _traces(setting, over, banded, styles[setting])
    layout = {"xaxis": {"title": {"text": "step"}, "rangemode": "tozero"}}
    return CurvePlot(title, about, data, layout)


def _traces(setting: str, over: Band, banded: bool, style: Style) -> list[dict[str, Any]]:
    common = {"type": "scatter", "meta": setting, "visible": style.shown, "x": over.steps}
    line = {
        **common,
        "y": [rounded(value, 5) for value in over.mean],
        "name": plotly_text(setting),
        "mode": "lines" if len(over.steps) > 1 else "markers",
        "line": {"color": style.colour, "dash": style.dash, "width": style.width},
        "marker": {"color": style.colour},
        "hovertemplate": "step %{x:,}: %{y:.4~g}",
    }
    if not banded or len(over.steps) == 1:
        return [line]
    edge = {**common, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    low = {**edge, "y": [rounded(value, 5) for value in over.low]}
    fill = {"fill": "tonexty", "fillcolor": faint(style.colour)}
    high = {**edge, "y": [rounded(value, 5) for value in over.high], **fill}
    return [low, high, line]


def _scale(figure: CurvePlot, calm: set[str]) -> None:
    """A logarithmic axis where that shows more; losses on the way to inf do not squeeze the others."""
    means = [trace for trace in figure.data if "name" in trace]
    values = [y for trace in means if trace["meta"] in calm or not calm for y in trace["y"]]
    every = [y for trace in means for y in trace["y"]]
    if not values:
        return
    low, high = min(values), max(values)
    if min(every) > 0 and high > LOG_FROM * low:
        # labels at 1, 2 and 5 where there are few powers of ten
        few = high < 300 * low
        figure.layout["yaxis"] = {"type": "log", "dtick": "D2" if few else 1}
    if max(every) - min(every) > BEYOND * (high - low):
        axis = figure.layout.setdefault("yaxis", {})
        ends = [math.log10(low), math.log10(high)] if axis.get("type") == "log" else [low, high]
        pad = 0.08 * (ends[1] - ends[0])
        axis["range"] = [ends[0] - pad, ends[1] + pad]


REST = 0.005  # of the elements may lie left of what is shown at first
MARGIN = 0.5  # decades beside the histogram and the crossover
POINTS = 120
POWERS = {
    "exponentformat": "power",
    "tickfont": {"size": 10},
}  # plotly enlarges powers by a quarter

Histogram = dict[float, float]  # from log10 of a bin's lower edge to its share


def shapes(runs: dict[str, list[RunHistory]], styles: dict[str, Style]) -> list[CurvePlot]:
    """A figure for each setting with an f, under the setting's name."""
    figures = []
    for setting, several in runs.items():
        seen = [
            mean(entry["histogram"] for entry in run.gradients if "histogram" in entry)
            for run in several
        ]
        whole = mean(histogram for histogram in seen if histogram)
        if whole:
            figures.append(_figure(setting, several, whole, styles[setting]))
    return figures


def mean(histograms: Iterable[dict[Any, float]]) -> Histogram:
    """Of the shares in each bin.

    Example:
        >>> mean([{"-3": 1.0}, {"-3": 0.5, "-2.75": 0.5}])
        {-3.0: 0.75, -2.75: 0.25}
    """
    total: dict[float, float] = defaultdict(float)
    count = 0
    for histogram in histograms:
        count += 1
        for edge, share in histogram.items():
            total[float(edge)] += share
    return {edge: total[edge] / count for edge in sorted(total)}


def _figure(title: str, runs: list[RunHistory], whole: Histogram, style: Style) -> CurvePlot:
    function = _function(runs)
    left, right = _range(whole, function)
    data = [
        _bins(whole, "whole run", {"width": 0}, fillcolor=faint(style.colour, 0.3), fill="tozeroy"),
        _bins(_at(runs, 0), "first record", {"color": GREY, "width": 1, "dash": "dot"}),
        _bins(_at(runs, -1), "last record", {"color": GREY, "width": 1.5}),
    ]
    top = max(y for trace in data for y in trace["y"])
    layout: dict[str, Any] = {
        "xaxis": {
            "type": "log",
            "range": [left, right],
            "title": {"text": "size of what f acts on, |g|"},
            **POWERS,
            "dtick": max(1, math.ceil((right - left) / 5)),
        },
        "yaxis": {
            "title": {"text": "share of elements"},
            "tickformat": ".0%",
            "range": [0, 1.08 * top],
        },
    }
    if function is not None:
        data += _lines(function, left, right)
        values = [y for trace in data[3:4] for y in trace["y"]]
        layout["yaxis2"] = {
            "type": "log",
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "title": {"text": "f(g)", "standoff": 6},
            **POWERS,
            "dtick": max(1, round(math.log10(max(values) / min(values)) / 5)),
        }
        if 0 < function.crossover < math.inf:
            layout["shapes"] = [vertical(function.crossover, GREY, 1)]
    return CurvePlot(title, "", data, layout)


def _function(runs: list[RunHistory]) -> gaf.Activation | None:
    """The runs' f; None where it is the user's own and not registered here."""
    text = next((run.activation for run in runs if run.activation), None)
    try:
        f = as_activation(text)
        return None if isinstance(f, Adaptive) else f  # which has a curve for each tensor
    except gaf.GafError:
        return None


def _range(whole: Histogram, function: gaf.Activation | None) -> tuple[float, float]:
    """From where nearly nothing lies left to where nothing lies right, with the crossover in sight."""
    below, left = 0.0, min(whole)
    for edge, share in whole.items():
        below += share
        if below > REST:
            left = edge
            break
    right = max(whole) + 1 / BINS_A_DECADE
    if function is not None and 0 < function.crossover < math.inf:
        right = max(right, math.log10(function.crossover))
        left = min(left, math.log10(function.crossover))
    return left - MARGIN, right + MARGIN


def _at(runs: list[RunHistory], position: int) -> Histogram:
    records = [[e for e in run.gradients if e.get("histogram")] for run in runs]
    return mean(entries[position]["histogram"] for entries in records if entries)


def _bins(histogram: Histogram, name: str, line: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The outline of a histogram; bins that are not there are empty."""
    step = 1 / BINS_A_DECADE
    first, count = min(histogram), round((max(histogram) - min(histogram)) / step) + 1
    edges = [first + i * step for i in range(count)]
    shares = [histogram.get(edge, 0.0) for edge in edges]
    return {
        "type": "scatter",
        "name": name,
        "mode": "lines",
        "x": [rounded(10**edge, 5) for edge in (first, *edges, edges[-1] + step, edges[-1] + step)],
        "y": [0.0, *(rounded(share, 4) for share in shares), shares[-1], 0.0],
        "line": {"shape": "hv", **line},
        "hovertemplate": "from %{x:.2~g}: %{y:.1%}",
        **more,
    }


def _lines(function: gaf.Activation, left: float, right: float) -> list[dict[str, Any]]:
    exponents = [left + (right - left) * i / (POINTS - 1) for i in range(POINTS)]
    sizes = [10**e for e in exponents]
    common = {
        "type": "scatter",
        "mode": "lines",
        "yaxis": "y2",
        "x": [rounded(x, 5) for x in sizes],
    }
    return [
        {
            **common,
            "name": "f(g)",
            "y": [rounded(float(function(x)), 5) for x in sizes],
            "line": {"color": INK, "width": 2.5},
            "hovertemplate": "f(%{x:.3~g}) = %{y:.3~g}",
        },
        {
            **common,
            "name": "g itself",
            "y": common["x"],
            "line": {"color": INK, "width": 1, "dash": "dot"},
            "hoverinfo": "skip",
        },
    ]
