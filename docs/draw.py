"""Draw the pictures of these pages: `python docs/draw.py` writes them to docs/images."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
import torch
from PIL import Image

import gaf
from gaf.common.files import write_whole
from gaf.lab.reports.comparison_view import ComparisonView
from gaf.lab.reports.figures import Settings, find, style
from gaf.lab.reports.figures.base import METADATA, drawn
from gaf.lab.study.compare import read
from gaf.optim.factory import read_name

HERE = Path(__file__).parent / "images"
DEMO = Path(__file__).parent.parent / "results" / "demo" / "digits-cnn"
SHOWN = ("clip-norm-1", "arctan(0.1, 20)@momentum")  # beside SGD, on the first screen of the README
FUNCTIONS = ((gaf.Arctan, style.BLUE), (gaf.Tanh, style.VERMILION), (gaf.Log, style.GREEN))


def functions() -> bytes:
    """f and f' of the three functions with the preset (0.1, 20), on the gradients that it bends."""
    g = torch.linspace(-0.4, 0.4, 401, dtype=torch.float64)
    drawing = style.new_figure(style.WIDTH, 2.6)
    left, right = drawing.subplots(1, 2)
    left.plot(g, g, color="#888888", linewidth=0.9, linestyle="--", label="f(g) = g")
    right.axhline(1, color="#888888", linewidth=0.9, linestyle="--")
    for kind, color in FUNCTIONS:
        f = kind(0.1, 20)
        label = f"{kind.__name__}(0.1, 20)"
        left.plot(g, f(g), color=color, label=label)
        left.plot([f.crossover], [f.crossover], "o", color=color, markersize=3.5)
        right.plot(g, f.derivative(g), color=color)
    left.set(title="f(g); a dot where f(g) = g, g > 0", xlabel="gradient g", ylim=(-0.28, 0.28))
    right.set(title="f′(g): enlarging above the line, restraining below", xlabel="gradient g")
    left.legend(frameon=False, loc="upper left")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(linewidth=0.3)
    drawing.tight_layout()
    file = io.BytesIO()
    drawing.savefig(file, format="svg", metadata=METADATA["svg"])
    return file.getvalue()


def family() -> bytes:
    """f of each member of the family, on what it acts on: those of SGD and those on Adam's ratio alike."""
    x = torch.linspace(-4, 4, 801, dtype=torch.float64)
    members = [(name, read_name(member.setting)) for name, member in gaf.FAMILY.items()]
    functions = [(name, f, place) for name, (_, f, place) in members if f is not None]
    drawing = style.new_figure(style.WIDTH, 5.2)
    for place, (name, f, where) in zip(drawing.subplots(4, 4).flat, functions, strict=False):
        place.plot(x, x, color="#888888", linewidth=0.7, linestyle="--")
        place.plot(x, _at_size_1(f, x), color=style.BLUE)
        place.set(ylim=(-2.6, 2.6), xticks=(-4, 0, 4), yticks=(-2, 0, 2))
        place.set_title(f"{name}\non the {where}", fontsize=6.5)
        place.grid(linewidth=0.3)
        place.spines[["top", "right"]].set_visible(False)
    for place in list(drawing.axes)[len(functions) :]:
        place.set_axis_off()
    drawing.tight_layout()
    file = io.BytesIO()
    drawing.savefig(file, format="svg", metadata=METADATA["svg"])
    return file.getvalue()


def _at_size_1(f: gaf.Activation, x: torch.Tensor) -> torch.Tensor:
    if not isinstance(f, gaf.Scaled):
        return f(x)
    one = torch.ones((), dtype=x.dtype)
    return f.curve.formula(torch, x, *f.factors(one, one, 1.0))


def learning_rates() -> bytes:
    """The curve over the learning rate with and without f, as `make demo` found it on the digits CNN."""
    comparison = read(DEMO)
    rows = tuple(row for row in comparison.rows if row.setting in (comparison.baseline, *SHOWN))
    drawing = ComparisonView(comparison.model_copy(update={"rows": rows}), DEMO).plot()
    assert drawing is not None
    drawing.axes[0].set(xlim=(0.02, 1.5), ylim=(0.8, 1.0))  # where rates are usable
    file = io.BytesIO()
    drawing.savefig(file, format="svg", metadata=METADATA["svg"], facecolor="white")
    return file.getvalue()


def figure_1() -> bytes:
    """The paper's Figure 1 as `gaf figure 1` draws it, for a screen: smaller, in 128 colours."""
    file, small = io.BytesIO(), io.BytesIO()
    find(1)(Settings(0.1, 20.0, 0.1)).draw().savefig(file, format="png", dpi=150)
    Image.open(file).convert("RGB").quantize(128).save(small, "png", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    with matplotlib.rc_context(style.RC):
        write_whole(HERE / "functions.svg", functions())
        write_whole(HERE / "family.svg", family())
        write_whole(HERE / "learning-rates.svg", learning_rates())
        write_whole(HERE / "figure-1.png", figure_1())
        write_whole(HERE / "figure-4.svg", drawn(find(4)(Settings(0.1, 20.0, 0.1)).draw, "svg"))
