"""Figure 1: equivalent loss surfaces of L = w₁² + 0.2w₂² under three functions and two clippings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gaf.lab.landscape import Measured, compare
from gaf.lab.landscape.equivalent import DISTANCES
from gaf.lab.reports.figures import style
from gaf.lab.reports.figures.base import Figure, Settings, short
from gaf.lab.theory.conditioning import Box
from gaf.lab.theory.problems import PAPER

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
            each.condition > 1.005 * original.condition
            and each.anisotropy[-1] < 0.995 * original.anisotropy[-1]
            for each in functions
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
        said = NOTE.format(distances, DISAGREE if self.measures_disagree else AGREE)
        drawing.text(0.5, 0.008, said, ha="center", fontsize=6.5, linespacing=1.45)
        return drawing


def _measures(row: Measured) -> str:
    ratios = ", ".join(f"{ratio:.2f}" for ratio in row.anisotropy)
    lines = [f"ζ over the box: {short(row.condition)}", f"anisotropy: {ratios}"]
    if not row.surface.exact:
        lines.append(f"no exact surface; residual {row.surface.residual:.0%}")
    return "\n".join(lines)
