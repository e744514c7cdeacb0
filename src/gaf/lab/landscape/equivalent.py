"""The equivalent loss: the loss whose plain gradient is the transformed gradient of another.

Descending L with T(∇L) in the place of ∇L is descending E with its own gradient, if ∇E = T(∇L) has a
solution. It has one where T acts by element and L is separable. Elsewhere (norm clipping, any f on a loss
that is not separable) the field T(∇L) has a curl and no E: what can be shown is the potential that fits it
best, with what is left over.

Two measures compare transforms, and need not agree. The condition number ζ = ℓ/c asks for the steepest and
the flattest slope of the field anywhere on the box; the anisotropy asks how far the field at (d, d) points
away from the diagonal. A GAF flattens: f' falls towards 0 where gradients are large and takes c with it, so ζ
grows, while the components of the field become alike, so the anisotropy falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.lab.landscape.closed_form import closed_form
from gaf.lab.landscape.potential import TOWARDS_START, fit_potential, grid_axes, line_integral
from gaf.lab.theory.conditioning import Box, anisotropy, constants
from gaf.lab.theory.fields import Activated, Transform, as_transform
from gaf.lab.theory.problems import Loss, Powers, Separable, as_loss, as_points

Method = Literal["closed form", "quadrature", "least squares"]
GRADIENT = 1e-9  # the residual of a fit above which a field is no gradient


@dataclass(frozen=True)
class Quadrature:
    """The equivalent loss by numerical integration, for any loss and transform that have one.

    E(w) is the integral of T(∇L) along the straight line from 0 to w. Call it with points, (..., n) to
    (...); autograd works.

    Example:
        >>> from gaf.lab.theory.problems import PAPER
        >>> Quadrature(PAPER, as_transform("tanh(0.1, 20)"))(torch.tensor([1.0, 1.0]))
        tensor(0.1896, dtype=torch.float64)
    """

    loss: Loss
    transform: Transform

    def __call__(self, w: Tensor) -> Tensor:
        flat = as_points(w, self.loss.dimension).reshape(-1, self.loss.dimension)
        parts = [
            line_integral(self.field, torch.zeros_like(part), part, TOWARDS_START)
            for part in flat.split(4096)  # some 300 MB at a time in two dimensions
        ]
        return torch.cat(parts).reshape(w.shape[:-1])

    def field(self, w: Tensor) -> Tensor:
        """T(∇L(w))."""
        return self.transform(self.loss.gradient(w))


@dataclass(frozen=True)
class Surface:
    """An equivalent loss over a grid on a box, 0 at the origin.

    ``curl`` and ``residual`` are of :class:`gaf.lab.landscape.Potential` where the field is no gradient,
    and 0 where it is; ``exact`` is False there. ``latex`` is the closed form, where that is the method.
    """

    x: Tensor
    y: Tensor
    values: Tensor  # of shape (len(x), len(y))
    method: Method
    latex: str | None = None
    curl: float = 0.0
    residual: float = 0.0

    @property
    def exact(self) -> bool:
        return self.method != "least squares"


def equivalent(
    loss: Loss | Callable[[Tensor], Tensor],
    transform: Transform | Activation | str | None,
    box: Box,
    points: int = 101,
) -> Surface:
    """The equivalent loss of a transformed gradient over a box in the plane, by what suits it.

    A separable quadratic is integrated in closed form, any other field that is a gradient by
    quadrature, and a field that is none gets the potential that fits it best.

    Args:
        loss: of two parameters; a plain function of a point to a scalar serves too.
        transform: a function, its name, a clipping, or None for the loss itself.
        box: where.
        points: of the grid, along each side.

    Example:
        >>> from gaf.lab.theory.fields import NormClip
        >>> from gaf.lab.theory.problems import PAPER
        >>> equivalent(PAPER, "arctan(0.1, 20)", Box.around(2, 1.0), points=11).method
        'closed form'
        >>> surface = equivalent(PAPER, NormClip(0.1), Box.around(2, 1.0), points=11)
        >>> surface.method, surface.exact
        ('least squares', False)
    """
    if len(box.lower) != 2:
        raise GafError(f"a surface is over a box in the plane; this one has {len(box.lower)} sides")
    loss = as_loss(loss, 2)
    if loss.dimension != 2:
        raise GafError(f"a surface is of a loss of two parameters; this one has {loss.dimension}")
    transform = as_transform(transform)
    integral = Quadrature(loss, transform)
    if not (isinstance(loss, Separable) and transform.elementwise):
        return _fitted(integral, box, points)
    x, y = grid_axes(box, points)
    if _is_quadratic(loss) and _has_symbolic(transform):
        form = closed_form(loss, transform)
        grid = torch.stack(torch.meshgrid(x, y, indexing="ij"), -1)
        return Surface(x, y, form(grid), "closed form", form.latex)
    # E is separable as well: a line along each axis tells it everywhere
    on_x = integral(torch.stack((x, torch.zeros_like(x)), -1))
    on_y = integral(torch.stack((torch.zeros_like(y), y), -1))
    return Surface(x, y, on_x[:, None] + on_y[None], "quadrature")


def _fitted(integral: Quadrature, box: Box, points: int) -> Surface:
    """The surface by least squares, which is exact, up to its value at one point, for a gradient."""
    fit = fit_potential(integral.field, box, points)
    if fit.residual > GRADIENT:
        return Surface(fit.x, fit.y, fit.values, "least squares", None, fit.curl, fit.residual)
    corner = integral(torch.stack((fit.x[0], fit.y[0])))
    return Surface(fit.x, fit.y, fit.values - fit.values[0, 0] + corner, "quadrature")


def _is_quadratic(loss: Loss) -> bool:
    return isinstance(loss, Powers) and all(power == 2 for _, power in loss.parameters)


def _has_symbolic(transform: Transform) -> bool:
    return not isinstance(transform, Activated) or type(transform.f).symbolic is not None


DISTANCES = (0.01, 0.1, 1.0)  # the points (d, d) at which the anisotropy is taken


@dataclass(frozen=True)
class Measured:
    """A transform on a loss: its surface, ζ over the box, and the anisotropy at each distance."""

    transform: Transform
    surface: Surface
    condition: float
    anisotropy: tuple[float, ...]


def compare(
    loss: Loss | Callable[[Tensor], Tensor],
    transforms: Iterable[Transform | Activation | str | None],
    box: Box,
    points: int = 101,
) -> list[Measured]:
    """Surfaces and measures of transforms on one loss of two parameters.

    Example:
        >>> from gaf.lab.theory.problems import PAPER
        >>> for each in compare(PAPER, [None, "arctan(0.1, 20)"], Box.around(2, 1.0), points=5):
        ...     ratios = ", ".join(f"{ratio:.2f}" for ratio in each.anisotropy)
        ...     print(f"{each.transform.name}: zeta {each.condition:.3g}, anisotropy {ratios}")
        original: zeta 5, anisotropy 5.00, 5.00, 5.00
        arctan(0.1, 20): zeta 1.6e+03, anisotropy 4.77, 1.96, 1.07
    """
    rows, loss = [], as_loss(loss, 2)
    for transform in map(as_transform, transforms):
        rows.append(
            Measured(
                transform,
                equivalent(loss, transform, box, points),
                constants(loss, box, transform).condition,
                tuple(anisotropy(loss, transform, DISTANCES)),
            )
        )
    return rows
