"""Figure 5: the largest gradient over the steps of a training without a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gaf.lab.reports.figures import style
from gaf.lab.reports.figures.base import Figure, Settings
from gaf.lab.reports.figures.trained import PROBED, whole_probe

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

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
            name: [max(layer.gradient[i].max for layer in each.layers) for i in range(each.steps)]
            for name, each in self.probes.items()
        }

    def numbers(self) -> dict[str, Any]:
        return {
            "models": [
                {
                    "model": name,
                    "largest": self.largest[name],
                    "when": each.when,
                    "spread": each.spread,
                    "layers": {layer.name: layer.typical() for layer in each.layers},
                }
                for name, each in self.probes.items()
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
        for name, each in self.probes.items():
            typical = [layer.typical() for layer in each.weights]
            right.plot(
                *(range(1, len(typical) + 1), typical, "o-"),
                **{"color": COLOURS[name], "markersize": 3, "label": name},
            )
        right.set(xlabel="layer, from the input", ylabel="typical $|g|$", yscale="log")
        right.set_title("(b) medians, layer by layer")
        right.legend(frameon=False)
        return drawing
