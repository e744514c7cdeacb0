"""The page of a tuning: the verdict, the line to copy, the reasons, the plots."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gaf.common.files import plain
from gaf.lab.reports import html
from gaf.lab.reports.history import thin
from gaf.lab.reports.html import PAGE, CurvePlot, plotly_text
from gaf.lab.reports.numbers import rounded
from gaf.lab.reports.style import GREY, INK, PALETTE, vertical
from gaf.lab.study.compare import COMPARISON
from gaf.lab.study.results import Tuned

LAYERS = 12  # shown; of more, evenly spaced ones


def write_page(tuned: Tuned, folder: Path) -> Path:
    """Write the page of a tuning into its folder, whole or not at all."""
    return html.write(render(tuned), folder / PAGE)


def render(tuned: Tuned) -> str:
    """The page as text."""
    record = plain(tuned.model_dump())
    return html.render(
        "tuning.html.jinja",
        {"seen": figures(record)},
        record=record,
        candidates=[(one.name, one.source) for one in tuned.candidates],
        comparison=f"{COMPARISON}/{PAGE}",
    )


def figures(record: dict[str, Any]) -> list[CurvePlot]:
    """All plots of a record."""
    return [_largest(record), _sizes(record), curve_figure(record["curve"])]


def _some(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return thin([layer for layer in layers if len(layer["shape"]) > 1] or layers, LAYERS)


def _colour(i: int, n: int) -> str:
    """From blue at the input to orange at the output."""
    t = i / max(1, n - 1)
    ends = (0, 114, 178), (213, 94, 0)
    return "rgb({},{},{})".format(*(round(a + t * (b - a)) for a, b in zip(*ends, strict=True)))


def _largest(record: dict[str, Any]) -> CurvePlot:
    layers = _some(record["probe"]["layers"])
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": plotly_text(layer["name"]),
            "x": list(range(1, len(layer["max"]) + 1)),
            "y": [_short(value) for value in layer["max"]],
            "line": {"color": _colour(i, len(layers)), "width": 1.5},
            "hovertemplate": "step %{x}: %{y:.2~e}",
        }
        for i, layer in enumerate(layers)
    ]
    return CurvePlot(
        "The largest |g| of each layer",
        "Over the steps of the probe, without f: Figure 5. Blue is the input's side, orange the output's.",
        data,
        {"xaxis": {"title": {"text": "step"}}, "yaxis": _log("largest |g|")},
    )


def _sizes(record: dict[str, Any]) -> CurvePlot:
    """Bars from the 10 % to the 99 % quantile, with 1/β of the winner and of the recommendation."""
    layers = _some(record["probe"]["layers"])
    quantiles = record["probe"]["quantiles"]
    data = []
    for i, layer in enumerate(layers):
        values = layer["gradient"]
        middle = values[quantiles.index(0.5)]
        if not values[0] > 0:
            continue
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plotly_text(layer["name"]),
                "x": [_short(value) for value in values],
                "y": [i] * len(values),
                "line": {"color": _colour(i, len(layers)), "width": 5},
                "marker": {"size": [4 if value != middle else 11 for value in values]},
                "hovertemplate": "%{x:.2~e}",
            }
        )
    shapes, notes = [], []
    for i, role in enumerate(("recommended", "winner")):
        at = 1 / record[role]["beta"]
        colour = INK if role == "winner" else GREY
        shapes.append(vertical(at, colour, 1.5))
        notes.append(
            {
                **{"x": math.log10(at), "y": 1 - 0.09 * i, "yref": "paper", "showarrow": False},
                **{"text": f"1/β {role}", "xanchor": "left", "yanchor": "top"},
                "font": {"color": colour, "size": 11},
            }
        )
    names = [plotly_text(_brief(layer["name"])) for layer in layers]
    # from the input downwards, with room for the two notes above
    rows = len(layers)
    axis = {"tickvals": list(range(rows)), "ticktext": names, "zeroline": False}
    axis["range"] = [rows - 0.5, -0.6 - 0.2 * rows]
    return CurvePlot(
        "How large gradients are, layer by layer",
        "From the 10 % to the 99 % quantile of |g|; the large mark is the median. Right of 1/β, f bends.",
        data,
        {"xaxis": _log("|g|"), "yaxis": axis, "shapes": shapes, "annotations": notes},
    )


def curve_figure(near: dict[str, Any]) -> CurvePlot:
    """A loss curve near an optimum with its fit, from a record's ``curve``."""
    shape = near["shape"]
    data: list[dict[str, Any]] = [
        {
            **{"type": "scatter", "mode": "lines", "name": "one direction", "hoverinfo": "skip"},
            **{"x": near["w"], "y": _list(losses), "line": {"color": GREY, "width": 1}},
        }
        for losses in near["each"]
    ]
    data.append(
        {
            **{"type": "scatter", "mode": "lines", "name": "mean", "x": near["w"]},
            **{"y": _list(near["losses"]), "line": {"color": PALETTE[0], "width": 3}},
            "hovertemplate": "%{x:.2f}: %{y:.4~g}",
        }
    )
    about = f"{near['why'][:1].upper()}{near['why'][1:]}."
    if shape:
        about = (
            f"Along {len(near['each'])} random directions (grey) and their mean: Figure 3. The fit goes with "
            f"|w|^{shape['power']:.2f} ± {shape['error']:.2f}: {shape['type']}, "
            f"confidence {shape['confidence']:.2f}."
        )
        fit = [
            shape["floor"] + shape["scale"] * abs(w - shape["optimum"]) ** shape["power"]
            for w in near["w"]
        ]
        data.append(
            {
                **{"type": "scatter", "mode": "lines", "name": "fit", "x": near["w"]},
                "y": _list(fit),
                **{"line": {"color": PALETTE[1], "width": 1.5, "dash": "dash"}},
                "hovertemplate": "fit %{y:.4~g}",
            }
        )
    layout = {
        "xaxis": {"title": {"text": "share of each filter's length"}},
        "yaxis": {"title": {"text": "training loss"}},
    }
    return CurvePlot("The loss curve near the optimum", about, data, layout)


def _log(title: str) -> dict[str, Any]:
    # ticks by their number, not by their distance: values within a decade have labels too
    return {"type": "log", "title": {"text": title}, "exponentformat": "power", "nticks": 5}


def _brief(name: str) -> str:
    return name if len(name) < 20 else f"…{name[-18:]}"


def _short(value: float) -> float | None:
    """Four digits: what a pixel shows; a logarithm has no place for 0."""
    return rounded(value, 4) if isinstance(value, int | float) and value > 0 else None


def _list(values: list[Any]) -> list[float | None]:
    return [rounded(v, 8) if isinstance(v, int | float) else None for v in values]
