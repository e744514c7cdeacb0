"""Figures 1, 2 and 4: equivalent loss surfaces, a saddle, and loss curves of Type 1 and Type 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gaf.common.errors import GafError
from gaf.functions import Arctan
from gaf.lab.landscape import Measured, Surface, compare, equivalent
from gaf.lab.landscape.equivalent import DISTANCES
from gaf.lab.reports.figures import style
from gaf.lab.reports.figures.base import Figure, Settings, short
from gaf.lab.theory.conditioning import Box
from gaf.lab.theory.problems import PAPER, Separable, TypeOne, TypeTwo, quadratic, strict_saddle

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


RADIUS = 1.0  # of the plotted box; the paper gives no range
NOTE = (
    "ζ is the condition number ℓ/c of the field over the plotted box; anisotropy is the ratio "
    "of the field's two components at (d, d), for d = {}.\n{}\n"
    "Norm clipping's field is no gradient: the surface shown is the potential that fits it best, and the "
    "residual is the share of the field that no surface has.\nEach surface has a height scale of its own."
)
DISAGREE = (
    "The two measures disagree: by ζ all three functions make this quadratic worse, by anisotropy at "
    "d = 1 all three make it better."
)
AGREE = "At these settings the two measures do not contradict each other for all three functions."
HEAD: dict[str, Any] = {"ha": "center", "fontsize": 6.9, "fontweight": "bold"}
MEASURES: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 6.5, "linespacing": 1.25}


class Surfaces(Figure):
    """Twelve panels: six surfaces, each in 3D and as contours, with both measures on each."""

    number = 1
    title = "equivalent loss surfaces of three functions and two clippings"
    scene = "bowl"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        transforms = (None, *settings.functions, settings.norm_clip, settings.value_clip)
        self.rows = compare(PAPER, transforms, Box.around(2, RADIUS))

    @property
    def measures_disagree(self) -> bool:
        """Whether each function is worse than the original by ζ and better by anisotropy at d = 1.

        Differences below half a percent, which no panel would show, do not count.
        """
        original, *functions = self.rows[:4]
        return all(
            row.condition > 1.005 * original.condition
            and row.anisotropy[-1] < 0.995 * original.anisotropy[-1]
            for row in functions
        )

    def numbers(self) -> dict[str, Any]:
        return {
            "loss": "w1^2 + 0.2 w2^2",
            "box": [-RADIUS, RADIUS],
            "distances": list(DISTANCES),
            "measures_disagree": self.measures_disagree,
            "surfaces": [
                {
                    "name": row.transform.name,
                    "zeta_over_box": row.condition,
                    "anisotropy": list(row.anisotropy),
                    "method": row.surface.method,
                    "exact": row.surface.exact,
                    "curl": row.surface.curl,
                    "residual": row.surface.residual,
                    "latex": row.surface.latex,
                }
                for row in self.rows
            ],
        }

    def draw(self) -> Drawing:
        drawing = style.new_figure(style.WIDTH, 8.2)
        letters = iter("abcdefghijkl")
        for number, row in enumerate(self.rows):
            left, bottom = 0.5 * (number % 2), 0.748 - 0.302 * (number // 2)
            solid = drawing.add_axes((left, bottom - 0.03, 0.222, 0.205), projection="3d")
            flat = drawing.add_axes((left + 0.309, bottom, 0.178, 0.156))
            face, z = row.surface, row.surface.values
            style.surface(solid, face.x, face.y, z, (z.min().item(), z.max().item()))
            style.contours(flat, face.x, face.y, z)
            for center, view in ((left + 0.125, "3D"), (left + 0.38, "contour")):
                name = f"({next(letters)}) {row.transform.name}, {view}"
                drawing.text(center, bottom + 0.222, name, **HEAD)
                drawing.text(center, bottom + 0.215, _measures(row), **MEASURES)
        distances = ", ".join(f"{d:g}" for d in DISTANCES)
        note = NOTE.format(distances, DISAGREE if self.measures_disagree else AGREE)
        drawing.text(0.5, 0.008, note, ha="center", fontsize=6.5, linespacing=1.45)
        return drawing


def _measures(row: Measured) -> str:
    ratios = ", ".join(f"{ratio:.2f}" for ratio in row.anisotropy)
    lines = [f"ζ over the box: {short(row.condition)}", f"anisotropy: {ratios}"]
    if not row.surface.exact:
        lines.append(f"no exact surface; residual {row.surface.residual:.0%}")
    return "\n".join(lines)


CURVATURE = 2.0  # of L = w₁² − w₂²
SADDLE_NOTE = (
    "The box is where |∂L/∂w| stays below the crossover {}: {} enlarges every gradient in it."
)


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
                {"name": name, "descent_along_w2": _descent(face), "latex": face.latex}
                for name, face in self.surfaces.items()
            ],
        }

    def draw(self) -> Drawing:
        drawing = style.new_figure(style.WIDTH, 3.1)
        extent = max(face.values.abs().max().item() for face in self.surfaces.values())
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
        note = SADDLE_NOTE.format(short(self.f.crossover), name)
        drawing.text(0.5, 0.03, note, ha="center", fontsize=6.5)
        return drawing


def _descent(face: Surface) -> float:
    """How far the surface falls from the saddle point to the edge along w₂, the unstable direction."""
    middle = len(face.x) // 2
    return (face.values[middle, middle] - face.values[middle, -1]).item()


REACH = 1.6  # how far the curves are drawn; the quadratic is 2.56 there
CURVES: dict[str, Separable] = {
    "quadratic": quadratic([2.0]),
    "Type 1": TypeOne((1.0,)),
    "Type 2": TypeTwo((1.0,)),
}
LOOKS = {
    "quadratic": (style.BLACK, "-"),
    "Type 1": (style.BLUE, "--"),
    "Type 2": (style.VERMILION, "-."),
}

CURVE_NOTES = (  # (height, what holds there)
    (0.85, "near the minimum Type 1 is flatter,\nType 2 sharper than the quadratic"),
    (2.12, "above 2 both are steeper than it"),
)


class Curves(Figure):
    """The curves and their gradients; the gradients say where a function should enlarge or restrain."""

    number = 4
    title = "loss curves of Type 1 and Type 2 beside the quadratic"
    scene = "curves"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.w = torch.linspace(-REACH, REACH, 641, dtype=torch.float64)
        points = self.w[:, None]
        self.losses = {name: loss(points) for name, loss in CURVES.items()}
        self.gradients = {name: loss.gradient(points)[:, 0] for name, loss in CURVES.items()}

    def numbers(self) -> dict[str, Any]:
        at = [0.1, 0.25, 0.5, 1.0, 1.5]
        points = torch.tensor(at, dtype=torch.float64)[:, None]
        return {
            "w": at,
            "curves": [
                {
                    "name": name,
                    "loss": loss(points).tolist(),
                    "gradient": loss.gradient(points)[:, 0].tolist(),
                }
                for name, loss in CURVES.items()
            ],
        }

    def draw(self) -> Drawing:
        drawing = style.new_figure(style.WIDTH, 2.9)
        left, right = drawing.subplots(1, 2)
        drawing.subplots_adjust(left=0.065, right=0.985, bottom=0.145, top=0.91, wspace=0.19)
        positive = self.w >= 0
        for name, (color, dashes) in LOOKS.items():
            look: dict[str, Any] = {"color": color, "linestyle": dashes, "label": name}
            left.plot(self.w.numpy(), self.losses[name].numpy(), **look)
            right.plot(self.w[positive].numpy(), self.gradients[name][positive].numpy(), **look)
        for level in (1.0, 2.0):
            left.axhline(level, color="0.6", linewidth=0.6, linestyle=":")
        for height, note in CURVE_NOTES:
            left.text(0, height, note, ha="center", va="center", fontsize=6.5, color="0.25")
        left.set(xlim=(-REACH, REACH), ylim=(0, 3), xlabel="$w$", ylabel="loss")
        left.set_title("(a) loss curves")
        right.set(xlim=(0, REACH), ylim=(0, 6), xlabel="$w$", ylabel="gradient d loss / d$w$")
        right.set_title("(b) their gradients")
        right.legend(frameon=False, loc="upper left")
        return drawing
