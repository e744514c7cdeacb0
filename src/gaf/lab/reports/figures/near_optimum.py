"""A loss curve near an optimum, drawn the same way in Figure 3 and around a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gaf.lab.reports.figures import style
from gaf.lab.study.tune.shape import Shape


def draw_curve(
    axes: Any,
    w: Sequence[float],
    losses: Sequence[float],
    each: Sequence[Sequence[float]],
    shape: Shape | None,
) -> None:
    """The mean over directions, each of them, the power law that fits, and the nearest quadratic."""
    for one in each:
        axes.plot(w, one, color="0.75", linewidth=0.6)
    axes.plot(w, losses, color=style.BLUE, label="loss")
    if shape is not None:
        fit = [shape.loss(x) for x in w]
        axes.plot(
            *(w, fit),
            **{"color": style.VERMILION, "linestyle": "--", "linewidth": 1.0},
            label=f"$|w|^{{{shape.power:.2f}}}$, {shape.type}",
        )
        axes.plot(
            *(w, quadratic(w, losses, shape)),
            **{"color": "0.2", "linestyle": ":", "linewidth": 1.0},
            label="nearest quadratic",
        )
    axes.set_xlabel("share of each filter's length", labelpad=1)
    axes.set_xlim(min(w), max(w))
    axes.margins(y=0.05)


def quadratic(w: Sequence[float], losses: Sequence[float], shape: Shape) -> list[float]:
    """c + q (w - w₀)² with the fit's own c and w₀, and q by least squares."""
    squares = [(x - shape.optimum) ** 2 for x in w]
    heights = [y - shape.floor for y in losses]
    q = sum(s * h for s, h in zip(squares, heights, strict=True)) / sum(s * s for s in squares)
    return [shape.floor + q * s for s in squares]
