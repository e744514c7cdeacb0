"""Figure 2: a saddle, and the equivalent surface that a function makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gaf.common.errors import GafError
from gaf.functions import Arctan
from gaf.lab.landscape import Surface, equivalent
from gaf.lab.reports.figures import style
from gaf.lab.reports.figures.base import Figure, Settings, short
from gaf.lab.theory.conditioning import Box
from gaf.lab.theory.problems import strict_saddle

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

CURVATURE = 2.0  # of L = w₁² − w₂²
NOTE = "The box is where |∂L/∂w| stays below the crossover {}: {} enlarges every gradient in it."


class Saddle(Figure):
    """L = w₁² − w₂² near its saddle point, original and equivalent, on the same scale."""

    number = 2
    title = "a saddle, original and equivalent"
    scene = "saddle"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.f = Arctan(settings.alpha, settings.beta)
        if self.f.slope <= 1:
            raise GafError(
                "figure 2 shows how small gradients are enlarged, which needs alpha * beta > 1, "
                f"got {self.f.slope:g}"
            )
        self.radius = self.f.crossover / CURVATURE
        box = Box.around(2, self.radius)
        loss = strict_saddle(CURVATURE, CURVATURE)
        self.surfaces = {
            "original": equivalent(loss, None, box),
            f"arctan({settings.alpha:g}, {settings.beta:g})": equivalent(loss, self.f, box),
        }

    def numbers(self) -> dict[str, Any]:
        return {
            "loss": "w1^2 - w2^2",
            "crossover": self.f.crossover,
            "box": [-self.radius, self.radius],
            "surfaces": [
                {"name": name, "descent_along_w2": _descent(each), "latex": each.latex}
                for name, each in self.surfaces.items()
            ],
        }

    def draw(self) -> Drawing:
        drawing = style.new_figure(style.WIDTH, 3.1)
        extent = max(each.values.abs().max().item() for each in self.surfaces.values())
        for number, (name, face) in enumerate(self.surfaces.items()):
            axes = drawing.add_axes((0.5 * number + 0.03, 0.1, 0.43, 0.8), projection="3d")
            style.surface(axes, face.x, face.y, face.values, (-extent, extent))
            drawing.text(
                0.5 * number + 0.25,
                0.9,
                f"({'ab'[number]}) {name}: falls by {short(_descent(face))} along w₂",
                ha="center",
                fontsize=7.5,
            )
        name = list(self.surfaces)[1]
        said = NOTE.format(short(self.f.crossover), name)
        drawing.text(0.5, 0.03, said, ha="center", fontsize=6.5)
        return drawing


def _descent(face: Surface) -> float:
    """How far the surface falls from the saddle point to the edge along w₂, the unstable direction."""
    middle = len(face.x) // 2
    return (face.values[middle, middle] - face.values[middle, -1]).item()
