"""What a diagnosis shows: a page, a table for the terminal, and a figure for print."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from gaf.lab.engine.doctor import Diagnosis, Watched
from gaf.lab.reports import html
from gaf.lab.reports.history import thin
from gaf.lab.reports.html import PAGE, CurvePlot, plotly_text
from gaf.lab.reports.numbers import rounded
from gaf.lab.reports.style import IN_PRINT, INK, PALETTE

LAYERS = 12  # drawn; of more, evenly spaced ones
POINTS = 500  # of a line: more than there are pixels to tell apart
COLUMNS = ("layer", "type", "elements", "norm", "largest", "zeros", "update / weight")


def write_page(diagnosis: Diagnosis, folder: Path, command: Sequence[str] = ()) -> Path:
    """Write the page of a diagnosis into a folder, whole or not at all."""
    return html.write(render(diagnosis, command), folder / PAGE)


def render(diagnosis: Diagnosis, command: Sequence[str] = ()) -> str:
    """The page as text."""
    plots = {
        str(number): [*_clipping(watched), *_layers(watched)]
        for number, watched in enumerate(diagnosis.optimizers)
    }
    optimizers = [
        {
            "title": title_of(diagnosis, number),
            "findings": watched.findings,
            "rows": rows_of(watched),
            "every": watched.every,
        }
        for number, watched in enumerate(diagnosis.optimizers)
    ]
    return html.render(
        "doctor.html.jinja",
        plots,
        diagnosis=diagnosis,
        optimizers=optimizers,
        columns=COLUMNS,
        headline=headline(diagnosis),
        command=list(command) or ["gaf", *sys.argv[1:]],
    )


def headline(diagnosis: Diagnosis) -> str:
    """How many problems there are, in a sentence."""
    count = len(diagnosis.problems)
    if not count:
        return f"Nothing alarming in {diagnosis.steps} steps."
    return f"{count} problem{'s' if count > 1 else ''} in {diagnosis.steps} steps."


def title_of(diagnosis: Diagnosis, number: int) -> str:
    """An optimizer as it is called, with its number where there are several."""
    name = diagnosis.optimizers[number].name or "The optimizer"
    return name if len(diagnosis.optimizers) == 1 else f"{name}, optimizer {number + 1}"


def rows_of(watched: Watched) -> list[tuple[str, ...]]:
    """For each layer the medians over the steps; the largest element is that of all steps."""
    rows = []
    for name, seen in _by_place(watched).items():
        ratios = [r["update_ratio"] for r in seen if r.get("update_ratio") is not None]
        elements = seen[-1]["elements"]
        zeros = statistics.median(r["zeros"] / max(1, r["elements"]) for r in seen)
        rows.append(
            (
                name,
                seen[-1]["dtype"],
                f"{elements:,}",
                f"{statistics.median(r['norm'] for r in seen):.2g}",
                f"{max(r['max'] for r in seen):.2g}",
                f"{100 * zeros:.0f} %",
                f"{statistics.median(ratios):.1e}" if ratios else "",
            )
        )
    return rows


def table(watched: Watched) -> Table:
    """The layers for a terminal."""
    shown = Table(box=None, pad_edge=False)
    for place, column in enumerate(COLUMNS):
        shown.add_column(column, justify="left" if place < 2 else "right")
    for row in rows_of(watched):
        shown.add_row(*row)
    return shown


def plot(watched: Watched, path: Path) -> None:
    """The norms over the steps as a picture, in the format that the path's ending names."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    colours = list(IN_PRINT.values())[2:]
    for number, (name, seen) in enumerate(_some(_by_place(watched)).items()):
        steps, norms = [r["step"] for r in seen], [r["norm"] or math.nan for r in seen]
        axes.plot(steps, norms, color=colours[number % len(colours)], lw=1, label=name)
    if watched.clips:
        steps = [clip["step"] for clip in watched.clips]
        axes.plot(
            steps, [clip["norm"] for clip in watched.clips], color="black", lw=1.5, label="all"
        )
        axes.plot(
            steps, [clip["max_norm"] for clip in watched.clips], "k--", lw=1, label="max_norm"
        )
    axes.set(xlabel="step", ylabel="norm of the gradient", yscale="log")
    axes.legend(fontsize=7, ncols=2)
    figure.savefig(path)


def _by_place(watched: Watched) -> dict[str, list[dict[str, Any]]]:
    places: dict[str, list[dict[str, Any]]] = {}
    for record in watched.records:
        places.setdefault(record["name"], []).append(record)
    return places


def _some(places: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Matrices rather than vectors, and not too many."""
    matrices = [n for n, seen in places.items() if len(seen[-1].get("shape", ())) > 1]
    return {name: places[name] for name in thin(matrices or list(places), LAYERS)}


def _clipping(watched: Watched) -> list[CurvePlot]:
    if not watched.clips:
        return []
    clips = thin(watched.clips, POINTS)
    steps = [clip["step"] for clip in clips]
    data = [
        _line("norm before clipping", steps, [c["norm"] for c in clips], PALETTE[0], 2),
        {**_line("max_norm", steps, [c["max_norm"] for c in clips], INK, 1.5)},
    ]
    data[1]["line"]["dash"] = "dash"
    about = "The norm that clip_grad_norm_ found at each step. Where it is above max_norm, clipping acts."
    return [CurvePlot("Clipping", about, data, _axes("norm of all gradients"))]


def _layers(watched: Watched) -> list[CurvePlot]:
    places = _some(_by_place(watched))
    plots = []
    for key, title, about in (
        (
            "norm",
            "The gradients of each layer",
            "The norm over the steps, as the optimizer gets them. Blue is the first layer, orange the last.",
        ),
        (
            "update_ratio",
            "How far a step goes",
            "The size of the update over the size of the weights, layer by layer.",
        ),
    ):
        data = [
            _line(
                name,
                [r["step"] for r in thin(seen, POINTS)],
                [r.get(key) for r in thin(seen, POINTS)],
                _colour(i, len(places)),
                1.5,
            )
            for i, (name, seen) in enumerate(places.items())
        ]
        plots.append(CurvePlot(title, about, data, _axes(title[:1].lower() + title[1:])))
    plots[0].layout["yaxis"]["title"]["text"] = "norm"
    plots[1].layout["yaxis"]["title"]["text"] = "update / weight"
    return plots


def _line(
    name: str, steps: Sequence[int], values: Sequence[Any], colour: str, width: float
) -> dict[str, Any]:
    return {
        **{"type": "scatter", "mode": "lines", "name": plotly_text(name), "x": list(steps)},
        "y": [_positive(value) for value in values],
        "line": {"color": colour, "width": width},
        "hovertemplate": "step %{x}: %{y:.2~e}",
    }


def _positive(value: Any) -> float | None:
    """Four digits; a logarithm has no place for 0."""
    return rounded(value, 4) if isinstance(value, int | float) and 0 < value < math.inf else None


def _axes(title: str) -> dict[str, Any]:
    axis = {"type": "log", "title": {"text": title}, "exponentformat": "power", "nticks": 5}
    return {"xaxis": {"title": {"text": "step"}}, "yaxis": axis}


def _colour(i: int, n: int) -> str:
    """From blue at the input to orange at the output."""
    t = i / max(1, n - 1)
    ends = (0, 114, 178), (213, 94, 0)
    return "rgb({},{},{})".format(*(round(a + t * (b - a)) for a, b in zip(*ends, strict=True)))
