"""Transforms side by side on one loss, by two measures that need not agree.

The condition number ζ = ℓ/c asks for the steepest and the flattest slope of the field anywhere on the box;
the anisotropy asks how far the field at (d, d) points away from the diagonal. A GAF flattens: f' falls
towards 0 where gradients are large and takes c with it, so ζ grows, while the components of the field
become alike, so the anisotropy falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from gaf.functions import Activation
from gaf.lab.landscape.equivalent import Surface, equivalent
from gaf.lab.theory.conditioning import Box, anisotropy, constants
from gaf.lab.theory.fields import Transform, as_transform
from gaf.lab.theory.problems import Loss, as_loss

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
