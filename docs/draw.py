"""Draw the pictures of these pages: `python docs/draw.py [NAME...]` writes them to docs/images."""

from __future__ import annotations

import io
import math
import re
import sys
from pathlib import Path

import matplotlib
import torch
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import FancyBboxPatch
from PIL import Image

import gaf
from gaf.common.files import write_whole
from gaf.lab.landscape import equivalent
from gaf.lab.reports.comparison_view import ComparisonView
from gaf.lab.reports.figures import Settings, find, style
from gaf.lab.reports.figures.base import METADATA, drawn
from gaf.lab.study.compare import read
from gaf.lab.theory.conditioning import Box
from gaf.lab.theory.problems import PAPER
from gaf.optim.factory import read_name

HERE = Path(__file__).parent / "images"
DEMO = Path(__file__).parent.parent / "results" / "demo" / "digits-cnn"
SHOWN = ("clip-norm-1", "arctan(0.1, 20)@momentum")  # beside SGD, on the first screen of the README
GREY = "#888888"
SURFACES = ("arctan", "tanh", "log")
FUNCTIONS = ((gaf.Arctan, style.BLUE), (gaf.Tanh, style.VERMILION), (gaf.Log, style.GREEN))


def saved(drawing: Drawing) -> bytes:
    """As SVG on white, which stays readable where a page is dark; to a hundredth of a point, for its size."""
    file = io.BytesIO()
    drawing.savefig(file, format="svg", metadata=METADATA["svg"], facecolor="white")
    return re.sub(rb"(\.\d\d)\d+", rb"\1", file.getvalue())


def functions() -> bytes:
    """f and f' of the three functions with the preset (0.1, 20), on the gradients that it bends."""
    g = torch.linspace(-0.4, 0.4, 201, dtype=torch.float64)
    drawing = style.new_figure(style.WIDTH, 2.6)
    left, right = drawing.subplots(1, 2)
    left.plot(g, g, color=GREY, linewidth=0.9, linestyle="--", label="f(g) = g")
    right.axhline(1, color=GREY, linewidth=0.9, linestyle="--")
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
    return saved(drawing)


def family() -> bytes:
    """f and f' of each member of the family, on what it acts on: SGD's and those on Adam's ratio alike."""
    x = torch.linspace(-4, 4, 160, dtype=torch.float64)  # without 0, where a sign has no slope
    members = [(name, read_name(member.setting)) for name, member in gaf.FAMILY.items()]
    functions = [(name, f, place) for name, (_, f, place) in members if f is not None]
    rows = math.ceil(len(functions) / 4)
    drawing = style.new_figure(style.WIDTH, 0.25 + 1.25 * rows)
    places = drawing.subplots(rows, 4).flat
    for axes, (name, f, where) in zip(places, functions, strict=False):
        axes.plot(x, x, color=GREY, linewidth=0.7, linestyle="--")
        values, slopes = _curve(f, x)
        axes.plot(x, values, color=style.BLUE, label="f")
        axes.plot(x, slopes, color=style.VERMILION, linewidth=0.9, label="f′")
        axes.set(ylim=(-2.6, 2.6), xticks=(-4, 0, 4), yticks=(-2, 0, 2))
        axes.set_title(f"{name}\non the {where}", fontsize=6.5)
        axes.grid(linewidth=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in drawing.axes[len(functions) :]:
        axes.set_axis_off()
    drawing.axes[0].legend(frameon=False, loc="upper left", fontsize=6, handlelength=1)
    drawing.tight_layout()
    return saved(drawing)


# What stands between the gradient and the weights in SGD with momentum, at each placement.
STEPS = {
    "gradient": ("gradient ∇", "f", "velocity v ← μv + f(∇)", "times −η", "weights"),
    "momentum": ("gradient ∇", "velocity v ← μv + ∇", "f", "times −η", "weights"),
    "update": ("gradient ∇", "times −η", "velocity v ← μv − η∇", "f", "weights"),
}
WIDTHS = {
    "f": 0.5,
    "times −η": 1.1,
    "weights": 1.1,
    "gradient ∇": 1.25,
}  # inches; else a velocity's


def placements() -> bytes:
    """Where f acts in a step of SGD with momentum: a row for each placement."""
    drawing = style.new_figure(style.WIDTH, 2.1)
    axes = drawing.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, style.WIDTH), ylim=(0, 2.1))
    axes.set_axis_off()
    for row, (placement, steps) in enumerate(STEPS.items()):
        y, right = 1.75 - 0.7 * row, 0.98
        axes.text(0.06, y, placement, va="center", fontweight="bold")
        for step in steps:
            is_f, wide = step == "f", WIDTHS.get(step, 1.6)
            box = "square,pad=0" if not is_f else "round,pad=0,rounding_size=0.12"
            patch = FancyBboxPatch(
                (right, y - 0.17),
                *(wide, 0.34),
                boxstyle=box,
                facecolor=style.BLUE if is_f else "#f2f4f7",
                edgecolor=style.BLUE if is_f else GREY,
                linewidth=0.8,
            )
            axes.add_patch(patch)
            color = "white" if is_f else "black"
            axes.text(right + wide / 2, y, step, ha="center", va="center", color=color)
            right += wide
            if step != "weights":
                arrow = {"arrowstyle": "-|>", "color": "#555555", "linewidth": 0.8}
                axes.annotate("", (right + 0.15, y), (right, y), arrowprops=arrow)
                right += 0.15
    return saved(drawing)


def surfaces() -> bytes:
    """The paper's loss from above, and the equivalent losses of three functions: contours of equal steps."""
    box = Box.around(2, 1.0)
    drawing = style.new_figure(style.WIDTH, 2.2)
    named = {"the loss w₁² + 0.2w₂²": None} | {f"after {n}(0.1, 20)": n for n in SURFACES}
    for axes, (title, name) in zip(drawing.subplots(1, 4), named.items(), strict=True):
        function = None if name is None else f"{name}(0.1, 20)"
        found = equivalent(PAPER, function, box, points=41)
        values = found.values.T.numpy()
        axes.contour(found.x, found.y, values, levels=7, cmap=style.MAP, linewidths=0.9)
        axes.set(title=title, xticks=(-1, 0, 1), yticks=(-1, 0, 1), xlabel="w₁", aspect="equal")
    drawing.axes[0].set_ylabel("w₂", labelpad=-4)
    drawing.tight_layout()
    return saved(drawing)


def _curve(f: gaf.Activation, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """f and f' at x; of one that divides by its tensor's size, where that is 1."""
    if not isinstance(f, gaf.Scaled):
        return f(x), f.derivative(x)
    one, x = torch.ones((), dtype=x.dtype), x.clone().requires_grad_()
    values = f.curve.formula(torch, x, *f.factors(one, one, 1.0))
    return values.detach(), torch.autograd.grad(values.sum(), x)[0]


def learning_rates() -> bytes:
    """The curve over the learning rate with and without f, as `make demo` found it on the digits CNN."""
    comparison = read(DEMO)
    rows = tuple(row for row in comparison.rows if row.setting in (comparison.baseline, *SHOWN))
    drawing = ComparisonView(comparison.model_copy(update={"rows": rows}), DEMO).plot()
    assert drawing is not None
    drawing.axes[0].set(xlim=(0.02, 1.5), ylim=(0.8, 1.0))  # where rates are usable
    return saved(drawing)


def figure_1() -> bytes:
    """The paper's Figure 1 as `gaf figure 1` draws it, for a screen: smaller, in 128 colours."""
    file, small = io.BytesIO(), io.BytesIO()
    find(1)(Settings(0.1, 20.0, 0.1)).draw().savefig(file, format="png", dpi=150)
    Image.open(file).convert("RGB").quantize(128).save(small, "png", optimize=True)
    return small.getvalue()


def figure_4() -> bytes:
    """The paper's Figure 4 as `gaf figure 4` draws it."""
    return drawn(find(4)(Settings(0.1, 20.0, 0.1)).draw, "svg")


PICTURES = {
    "functions.svg": functions,
    "family.svg": family,
    "placements.svg": placements,
    "surfaces.svg": surfaces,
    "learning-rates.svg": learning_rates,
    "figure-1.png": figure_1,
    "figure-4.svg": figure_4,
}


def picture(name: str) -> bytes:
    """One of them, in the style of all."""
    with matplotlib.rc_context(style.RC):
        return PICTURES[name]()


if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        write_whole(HERE / name, picture(name))
