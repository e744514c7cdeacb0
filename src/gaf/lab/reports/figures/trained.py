"""Figures 3 and 5, of small trainings: seconds on digits, the same numbers each time.

What trains is imported when it is needed: the other figures do without it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaf.lab.reports.figures import style
from gaf.lab.reports.figures.base import Figure, Settings
from gaf.lab.study.tune.shape import Shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from gaf.lab.engine.config import RunConfig
    from gaf.lab.study.landscape import Curve, Reached
    from gaf.lab.study.tune.probe import Probe


EPOCHS = 8
SAMPLES = 128


def _cnn() -> RunConfig:
    from gaf.lab.study import recipes

    return recipes.get("digits-cnn-sgdm").model_copy(update={"epochs": EPOCHS})


def _mlp() -> RunConfig:
    from gaf.lab.engine.config import TaskConfig

    options = {"depth": 3, "width": 64, "activation": "tanh"}
    task = TaskConfig(data="digits", model="mlp", model_options=options)
    return _cnn().model_copy(update={"name": "digits-mlp-sgdm", "task": task})


def _deep() -> RunConfig:
    from gaf.lab.study.recipes.laptop import hard_case

    return hard_case().model_copy(update={"epochs": EPOCHS})


MODELS = {"digits CNN": _cnn, "digits MLP": _mlp}
PROBED = {"digits CNN": _cnn, "deep sigmoid MLP": _deep}


@cache
def _reached(name: str) -> Reached:
    from gaf.lab.engine.run import train
    from gaf.lab.study.landscape import reached

    quiet = {"monitor_every": 0, "evaluate_every": 0, "checkpoint_every": 10**9}
    config = MODELS[name]().model_copy(update=quiet)
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder))
        return reached(Path(folder), config)


@cache
def near_optimum(name: str, radius: float) -> Curve:
    """The curve around the end of a training."""
    from gaf.lab.study.landscape import curve, training_loss

    at = _reached(name)
    return curve(at.model, training_loss(at.task, SAMPLES), radius=radius)


@cache
def whole_probe(name: str) -> Probe:
    """A probe that lasts a whole training."""
    from gaf.lab.study.tune.probe import probe

    return probe(PROBED[name](), steps=10**9)


def draw_curve(
    axes: Any,
    w: Sequence[float],
    losses: Sequence[float],
    directions: Sequence[Sequence[float]],
    shape: Shape | None,
) -> None:
    """The mean over directions, each of them, the power law that fits, and the nearest quadratic."""
    for direction in directions:
        axes.plot(w, direction, color="0.75", linewidth=0.6)
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


WIDE, CLOSE = 1.0, 0.25  # of each filter's length


class NearOptimum(Figure):
    """The paper's are of ResNet-18 and DenseNet on CIFAR; these are of small models on digits.

    ``gaf landscape`` draws the same of any run.
    """

    number = 3
    title = "loss curves near the optimum after training"
    scene = "curves"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.curves = {
            (name, radius): near_optimum(name, radius)
            for name in MODELS
            for radius in (WIDE, CLOSE)
        }

    def numbers(self) -> dict[str, Any]:
        return {
            "curves": [
                {
                    "model": name,
                    "radius": radius,
                    "w": list(curve.w),
                    "losses": list(curve.losses),
                    "shape": asdict(curve.shape) if curve.shape else None,
                }
                for (name, radius), curve in self.curves.items()
            ]
        }

    def draw(self) -> Drawing:
        drawing = style.new_figure(style.WIDTH, 2.3)
        panels = drawing.subplots(1, len(self.curves))
        drawing.subplots_adjust(left=0.065, right=0.985, bottom=0.17, top=0.88, wspace=0.36)
        for i, (axes, ((name, radius), curve)) in enumerate(
            zip(panels, self.curves.items(), strict=True)
        ):
            draw_curve(axes, curve.w, curve.losses, curve.each, curve.shape)
            enlarged = f"enlarged view of ({'ac'[i // 2]})" if radius == CLOSE else name
            axes.set_title(f"({'abcd'[i]}) {enlarged}")
            axes.legend(frameon=False, loc="upper center", fontsize=5.5)
        panels[0].set_ylabel("training loss")
        return drawing


COLOURS = dict(zip(PROBED, (style.BLUE, style.VERMILION), strict=True))


class LargestGradients(Figure):
    """The paper's is of ResNet-18 on CIFAR-10; these are of small models on digits, whole trainings."""

    number = 5
    title = "the largest gradient during training"
    scene = "curves"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.probes = {name: whole_probe(name) for name in PROBED}
        self.largest = {
            name: [max(layer.gradient[i].max for layer in probe.layers) for i in range(probe.steps)]
            for name, probe in self.probes.items()
        }

    def numbers(self) -> dict[str, Any]:
        return {
            "models": [
                {
                    "model": name,
                    "largest": self.largest[name],
                    "when": probe.when,
                    "spread": probe.spread,
                    "layers": {layer.name: layer.typical() for layer in probe.layers},
                }
                for name, probe in self.probes.items()
            ]
        }

    def draw(self) -> Drawing:
        drawing = style.new_figure(style.WIDTH, 2.5)
        left, right = drawing.subplots(1, 2)
        drawing.subplots_adjust(left=0.1, right=0.985, bottom=0.16, top=0.9, wspace=0.28)
        for name, values in self.largest.items():
            steps = range(1, len(values) + 1)
            left.plot(steps, values, color=COLOURS[name], linewidth=0.8, label=name)
            when = self.probes[name].when
            left.plot([when], [values[when - 1]], "o", color=COLOURS[name], markersize=4)
        left.set(xlabel="step", ylabel="largest $|g|$", yscale="log")
        left.set_title("(a) the largest gradient, its maximum marked")
        left.legend(frameon=False)
        for name, probe in self.probes.items():
            typical = [layer.typical() for layer in probe.weights]
            right.plot(
                *(range(1, len(typical) + 1), typical, "o-"),
                **{"color": COLOURS[name], "markersize": 3, "label": name},
            )
        right.set(xlabel="layer, from the input", ylabel="typical $|g|$", yscale="log")
        right.set_title("(b) medians, layer by layer")
        right.legend(frameon=False)
        return drawing
