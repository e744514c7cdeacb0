"""How figures look in print: one palette that colour-blind readers can tell apart, sizes for a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing
    from torch import Tensor

WIDTH = 7.16  # inches, the two columns of an IEEE page
MAP = "cividis"  # the same to readers with and without colour blindness

# Okabe and Ito's colours.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"

RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "svg.fonttype": "none",  # text stays text: it can be searched and edited
    "svg.hashsalt": "gaf",  # the same figure is the same file
}


def new_figure(width: float, height: float) -> Drawing:
    """A drawing of a size in inches, without the state that pyplot keeps."""
    from matplotlib.figure import Figure as Drawing

    return Drawing(figsize=(width, height))


def surface(axes: Any, x: Tensor, y: Tensor, z: Tensor, limits: tuple[float, float]) -> None:
    """A surface over (w₁, w₂), seen as the paper shows it."""
    from matplotlib.ticker import MaxNLocator

    wide, deep = x[:, None].expand(z.shape), y[None].expand(z.shape)
    axes.plot_surface(
        *(grid.numpy() for grid in (wide, deep, z)),
        cmap=MAP,
        vmin=limits[0],
        vmax=limits[1],
        rcount=32,
        ccount=32,
        linewidth=0.15,
        edgecolor=(1, 1, 1, 0.35),
    )
    axes.set_zlim(*limits)
    axes.view_init(elev=28, azim=-58)
    axes.set_xlabel("$w_1$", labelpad=-8)
    axes.set_ylabel("$w_2$", labelpad=-8)
    axes.tick_params(pad=-4)
    axes.zaxis.set_tick_params(pad=0)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_major_locator(MaxNLocator(3))
        axis.set_pane_color((1, 1, 1, 0))
        axis._axinfo["grid"].update(linewidth=0.3, color=(0.8, 0.8, 0.8, 1))


def contours(axes: Any, x: Tensor, y: Tensor, z: Tensor, levels: int = 12) -> None:
    """The same surface from above, with equal steps between its lines."""
    values = z.T.numpy()
    axes.contourf(x.numpy(), y.numpy(), values, levels=levels, cmap=MAP)
    axes.contour(x.numpy(), y.numpy(), values, levels=levels, colors="white", linewidths=0.35)
    axes.set_aspect("equal")
    axes.set_xlabel("$w_1$", labelpad=1)
    axes.set_ylabel("$w_2$", labelpad=-2)
    axes.set_xticks([x[0].item(), 0, x[-1].item()])
    axes.set_yticks([y[0].item(), 0, y[-1].item()])
