"""The loss around a checkpoint as files: PNG and SVG for print, and a page to turn and read."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaf.common.files import write_whole
from gaf.lab.reports import html
from gaf.lab.reports.figures import style
from gaf.lab.reports.figures.base import PRINT, drawn
from gaf.lab.reports.figures.trained import draw_curve
from gaf.lab.reports.html import CurvePlot
from gaf.lab.reports.numbers import rounded
from gaf.lab.reports.style import PALETTE
from gaf.lab.reports.tune_page import curve_figure
from gaf.lab.study.tune.shape import Shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

STEM = "landscape"


def write_all(around: dict[str, Any], folder: Path) -> list[Path]:
    """Write the files of what :func:`gaf.lab.study.landscape.look` found; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {f"{STEM}.{form}": drawn(partial(draw, around), form) for form in PRINT}
    contents[f"{STEM}.html"] = render(around).encode("utf-8", "replace")
    for name, content in contents.items():
        write_whole(folder / name, content)
    return [folder / name for name in contents]


def draw(around: dict[str, Any]) -> Drawing:
    """For print: the curve, the surface from above, and the line to another checkpoint if there is one."""
    import torch

    near, plane, line = (around[key] for key in ("curve", "surface", "line"))
    count = 3 if line else 2
    drawing = style.new_figure(style.WIDTH, 2.5)
    axes = drawing.subplots(1, count)
    drawing.subplots_adjust(left=0.075, right=0.985, bottom=0.17, top=0.9, wspace=0.3)
    shape = Shape(**near["shape"]) if near["shape"] else None
    draw_curve(axes[0], near["w"], near["losses"], near["each"], shape)
    axes[0].set_ylabel("training loss")
    axes[0].set_title("(a) along random directions")
    if shape:
        axes[0].legend(frameon=False, loc="upper center", fontsize=6)
    axis = torch.tensor(plane["axis"])
    style.contours(axes[1], axis, axis, torch.tensor(plane["losses"]))
    axes[1].set_xlabel("first direction", labelpad=1)
    axes[1].set_ylabel("second direction", labelpad=-2)
    axes[1].set_title("(b) over a plane, from above")
    if line:
        axes[2].plot(line["w"], line["losses"], color=style.BLUE)
        axes[2].set(xlabel="0: this checkpoint, 1: the other", xlim=(0, 1))
        axes[2].set_title("(c) between two checkpoints")
    return drawing


def render(around: dict[str, Any]) -> str:
    """The page as text."""
    figures = [curve_figure(around["curve"]), *_surfaces(around["surface"])]
    if around["line"]:
        figures.append(_line(around["line"]))
    return html.render("landscape.html.jinja", {"around": figures}, around=around)


def _surfaces(plane: dict[str, Any]) -> list[CurvePlot]:
    # plotly reads rows as y
    z = [[rounded(v, 8) for v in column] for column in zip(*plane["losses"], strict=True)]
    common = {"x": plane["axis"], "y": plane["axis"], "z": z, "colorscale": "Cividis"}
    hover = "(%{x:.2f}, %{y:.2f}): %{z:.4~g}<extra></extra>"
    axes = {"xaxis": {"title": {"text": "first direction"}}}
    axes["yaxis"] = {"title": {"text": "second direction"}}
    above = {"type": "contour", **common, "hovertemplate": hover, "ncontours": 20}
    turned = {"type": "surface", **common, "hovertemplate": hover, "showscale": False}
    scene: dict[str, Any] = {
        f"{axis}axis": {"title": {"text": text}, "nticks": 5}
        for axis, text in (("x", "first"), ("y", "second"), ("z", "loss"))
    }
    # from further off than plotly's 1.25, which cuts the axes' titles
    scene |= {"aspectmode": "cube", "camera": {"eye": {"x": 1.65, "y": 1.65, "z": 1.2}}}
    hidden = {"xaxis": {"visible": False}, "yaxis": {"visible": False}}
    margin = {"l": 0, "r": 0, "t": 0, "b": 0}
    return [
        CurvePlot("The surface from above", "Over the plane of two directions.", [above], axes),
        CurvePlot(
            "The surface",
            "Drag to turn it.",
            [turned],
            {"scene": scene, "margin": margin, **hidden},
        ),
    ]


def _line(line: dict[str, Any]) -> CurvePlot:
    trace = {
        **{"type": "scatter", "mode": "lines", "x": line["w"], "y": line["losses"]},
        "line": {"color": PALETTE[0], "width": 3},
        "hovertemplate": "%{x:.2f}: %{y:.4~g}<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "from this checkpoint (0) to the other (1)"}},
        "yaxis": {"title": {"text": "training loss"}},
    }
    return CurvePlot("Between two checkpoints", f"To {line['to']}.", [trace], layout)
