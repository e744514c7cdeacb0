"""Figures over the steps of training, as plotly reads them: a mean over seeds and a band around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gaf.lab.reports.history import Band, Curve, RunHistory, band
from gaf.lab.reports.html import CurvePlot, plotly_text
from gaf.lab.reports.numbers import rounded
from gaf.lab.reports.style import Style, faint
from gaf.lab.study.results import Comparison

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
