"""Figure 4: loss curves of Type 1, flat near the minimum, and Type 2, sharp there, beside the quadratic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gaf.lab.reports.figures import style
from gaf.lab.reports.figures.base import Figure, Settings
from gaf.lab.theory.problems import Separable, TypeOne, TypeTwo, quadratic

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

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

NOTES = (  # (height, what holds there)
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
        for height, said in NOTES:
            left.text(0, height, said, ha="center", va="center", fontsize=6.5, color="0.25")
        left.set(xlim=(-REACH, REACH), ylim=(0, 3), xlabel="$w$", ylabel="loss")
        left.set_title("(a) loss curves")
        right.set(xlim=(0, REACH), ylim=(0, 6), xlabel="$w$", ylabel="gradient d loss / d$w$")
        right.set_title("(b) their gradients")
        right.legend(frameon=False, loc="upper left")
        return drawing
