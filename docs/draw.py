"""Draw the pictures of these pages that are no figures of the paper.

`python docs/draw.py` writes docs/images/*.svg.
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
import torch

import gaf
from gaf.experiments.engine.files import write_whole
from gaf.reports.figures import style
from gaf.reports.figures.save import METADATA

HERE = Path(__file__).parent / "images"
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


if __name__ == "__main__":
    with matplotlib.rc_context(style.RC):
        write_whole(HERE / "functions.svg", functions())
