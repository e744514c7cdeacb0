"""How ill-conditioned a gradient field is on a box, before and after a transform.

The field is F(w) = T(∇L(w)) with Jacobian J(w) = T'(∇L(w)) ∇²L(w). A box is convex, so the difference
quotients of the paper's Definitions 3 and 4 are bounded by the Jacobian, and tightly so:

    ℓ = max ‖F(w) − F(v)‖ / ‖w − v‖           = max over w of the largest singular value of J(w)
    c = min ⟨F(w) − F(v), w − v⟩ / ‖w − v‖²    = min over w of the smallest eigenvalue of (J + Jᵀ)/2

The c of Definition 4 as printed takes ‖F(w) − F(v)‖ in the place of the inner product, which −w² meets
too; with the inner product c > 0 means strongly convex. ζ = ℓ/c, infinite where c is not positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.lab.theory.fields import Transform, as_transform
from gaf.lab.theory.problems import Loss, Separable, as_loss, as_points

LINE = 4001  # points on an axis of a separable loss
PLANE = (201, 41)  # on each axis of a box in two dimensions: the first look, and each closer one
ZOOMS = 12  # looks, each 10 times as close as the one before


@dataclass(frozen=True)
class Box:
    """The points between lower and upper, by coordinate.

    Example:
        >>> Box.around(2, 1.0)
        Box(lower=(-1.0, -1.0), upper=(1.0, 1.0))
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not self.lower:
            raise GafError(
                f"a box has as many lower as upper ends, got {len(self.lower)} and {len(self.upper)}"
            )
        for number, (low, high) in enumerate(zip(self.lower, self.upper, strict=True), start=1):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise GafError(
                    f"a box needs lower < upper, both finite; coordinate {number} has {low} and {high}"
                )

    @staticmethod
    def around(dimension: int, radius: float) -> Box:
        """The box from -radius to radius in each coordinate."""
        return Box((-float(radius),) * dimension, (float(radius),) * dimension)


@dataclass(frozen=True)
class Constants:
    """ℓ and c of a field, and ζ = ℓ/c."""

    lipschitz: float
    convexity: float

    @property
    def condition(self) -> float:
        return self.lipschitz / self.convexity if self.convexity > 0 else math.inf


def constants(
    loss: Loss | Callable[[Tensor], Tensor],
    box: Box,
    transform: Transform | Activation | str | None = None,
) -> Constants:
    """The tight ℓ and c of a loss on a box, with its gradient transformed.

    A separable loss under an element-wise transform is measured axis by axis, in any dimension; any
    other in up to two dimensions. The search takes a fine grid, which holds the corners, the middle
    and 0, and looks closer and closer around its best points.

    Args:
        loss: what is descended; a function of one point too.
        box: where.
        transform: a function, its name, a clipping, or None for the plain gradient.

    Example:
        >>> from gaf.lab.theory.problems import PAPER
        >>> constants(PAPER, Box.around(2, 1.0)).condition
        5.0
        >>> print(f"{constants(PAPER, Box.around(2, 1.0), 'arctan(0.1, 20)').condition:.0f}")
        1601
    """
    transform, loss = as_transform(transform), as_loss(loss, len(box.lower))
    _check_dimension(loss, box)
    if isinstance(loss, Separable) and transform.elementwise:
        low, high = by_axis(loss, box, transform)
        # J is diagonal: its singular values are |J_nn|, its eigenvalues J_nn
        return Constants(torch.maximum(low.abs(), high.abs()).max().item(), low.min().item())
    if loss.dimension > 2:
        raise GafError(
            "a box in more than two dimensions can be searched only for a separable loss under an "
            "element-wise function"
        )

    def jacobian(w: Tensor) -> Tensor:
        return transform.jacobian(loss.gradient(w)) @ loss.hessian(w)

    def largest(w: Tensor) -> Tensor:
        return torch.linalg.matrix_norm(jacobian(w), ord=2)

    def smallest(w: Tensor) -> Tensor:
        j = jacobian(w)
        return torch.linalg.eigvalsh((j + j.mT) / 2)[..., 0]

    return Constants(_maximum(largest, box), -_maximum(lambda w: -smallest(w), box))


def by_axis(loss: Separable, box: Box, transform: Transform) -> tuple[Tensor, Tensor]:
    """The least and the greatest slope of each coordinate of the field on its side of the box."""
    bounds = torch.tensor((box.lower, box.upper), dtype=torch.float64)

    def slope(w: Tensor) -> Tensor:
        return transform.slopes(loss.gradient(w)) * loss.curvature(w)

    ends = []
    for sign in (-1.0, 1.0):
        low, high = bounds
        best = torch.full((loss.dimension,), -math.inf, dtype=torch.float64)
        for _ in range(ZOOMS):
            w = _axis(low, high, LINE)
            values = sign * slope(w)
            largest, at = values.max(0)
            best = torch.maximum(best, largest)
            reach = (high - low) / 20
            middle = w.gather(0, at[None])[0]
            low = torch.maximum(middle - reach, bounds[0])
            high = torch.minimum(middle + reach, bounds[1])
        ends.append(sign * best)
    return ends[0], ends[1]


def anisotropy(
    loss: Loss,
    transform: Transform | Activation | str | None = None,
    distances: Sequence[float] = (0.01, 0.1, 1.0),
) -> list[float]:
    """How far the field is from pointing along the diagonal, at the points (d, ..., d).

    The ratio of the largest to the smallest component of the field there, 1 for a round loss. It is
    what the eye sees in Figure 1: contours are stretched by it. ζ asks for the worst slope of the
    field instead, and the two can disagree.

    Example:
        >>> from gaf.lab.theory.problems import PAPER
        >>> [round(ratio, 2) for ratio in anisotropy(PAPER, "arctan(0.1, 20)")]
        [4.77, 1.96, 1.07]
    """
    transform, loss = as_transform(transform), as_loss(loss)
    d = torch.tensor(distances, dtype=torch.float64)
    points = d[:, None].expand(len(d), loss.dimension)
    size = transform(loss.gradient(points)).abs()
    return (size.amax(-1) / size.amin(-1)).tolist()


def _check_dimension(loss: Loss, box: Box) -> None:
    if loss.dimension != len(box.lower):
        raise GafError(
            f"the loss has {loss.dimension} parameters and the box {len(box.lower)} sides"
        )


def _axis(low: Tensor, high: Tensor, points: int) -> Tensor:
    """Points from low to high in each coordinate, ends and 0 (where it is inside) among them."""
    share = torch.linspace(0, 1, points, dtype=torch.float64)[:, None]
    grid = low + share * (high - low)
    grid[-1] = high
    return torch.cat((grid, torch.zeros_like(low).clamp(low, high)[None]))


def _maximum(value: Callable[[Tensor], Tensor], box: Box) -> float:
    """The maximum over a box: a grid, then finer grids around its best point."""
    bounds = torch.tensor((box.lower, box.upper), dtype=torch.float64)
    low, high = bounds
    best = -math.inf
    for look in range(ZOOMS):
        axes = _axis(low, high, PLANE[min(look, 1)]).unbind(-1)
        w = torch.cartesian_prod(*axes)
        w = as_points(w[:, None] if w.dim() == 1 else w, len(box.lower))
        values = value(w)
        at = int(values.argmax())
        best = max(best, values[at].item())
        reach = (high - low) / 20
        low = torch.maximum(w[at] - reach, bounds[0])
        high = torch.minimum(w[at] + reach, bounds[1])
    return best
