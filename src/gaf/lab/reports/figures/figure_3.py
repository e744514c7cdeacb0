"""Figure 3: real loss curves near the optimum after training, each with an enlarged view."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gaf.lab.reports.figures import style
from gaf.lab.reports.figures.base import Figure, Settings
from gaf.lab.reports.figures.near_optimum import draw_curve
from gaf.lab.reports.figures.trained import MODELS, near_optimum

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

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
                    "w": list(found.w),
                    "losses": list(found.losses),
                    "shape": asdict(found.shape) if found.shape else None,
                }
                for (name, radius), found in self.curves.items()
            ]
        }

    def draw(self) -> Drawing:
        drawing = style.new_figure(style.WIDTH, 2.3)
        panels = drawing.subplots(1, len(self.curves))
        drawing.subplots_adjust(left=0.065, right=0.985, bottom=0.17, top=0.88, wspace=0.36)
        for i, (axes, ((name, radius), found)) in enumerate(
            zip(panels, self.curves.items(), strict=True)
        ):
            draw_curve(axes, found.w, found.losses, found.each, found.shape)
            enlarged = f"enlarged view of ({'ac'[i // 2]})" if radius == CLOSE else name
            axes.set_title(f"({'abcd'[i]}) {enlarged}")
            axes.legend(frameon=False, loc="upper center", fontsize=5.5)
        panels[0].set_ylabel("training loss")
        return drawing
