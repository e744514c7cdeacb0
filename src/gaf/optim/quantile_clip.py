r"""QuantileClip: clipping whose threshold sets itself, for each tensor.

With m the running quantile of abs(x), as :mod:`gaf.optim.adapt` keeps it:

.. math:: f(x) = x, \qquad f(x) = \mathrm{sign}(x)\, m\, (1 + \arctan(|x| / m - 1)) \text{ where } |x| > m

f has no corner, and stays below :math:`(1 + \frac{\pi}{2})\, m`. The learning rate keeps its level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Adaptive, ScaledCurve, register


def _bent(xp: Any, g: Any, m: Any, inverse: Any) -> Any:
    line = xp.clip(g, -m, m)
    return line + m * xp.arctan((g - line) * inverse)  # arctan(0) is 0: the line passes to the bit


CURVE = ScaledCurve(
    _bent,
    slope=lambda m, inverse: m * inverse,
    bound=lambda m, inverse: (1 + math.pi / 2) * m,
)


@register
class QuantileClip(Adaptive):
    """Clipping with a threshold for each tensor, a high running quantile of what it acts on.

    Smaller elements pass unchanged, to the bit; larger ones are bent to at most 2.6 times the threshold. No
    norm is taken and nothing is tuned: the learning rate stays the optimizer's; see docs/auto.md.

    Args:
        quantile: which quantile of the magnitudes ends the unchanged part, between 0 and 1.
        decay: of the running quantile, from 0 up to but not including 1.

    Example:
        >>> import gaf, torch
        >>> model = torch.nn.Linear(4, 2)
        >>> opt = gaf.AdamW(model.parameters(), lr=3e-3, activation=gaf.QuantileClip())
        >>> gaf.activation_of(opt.param_groups[0])
        QuantileClip(quantile=0.999, decay=0.99)
    """

    function: ClassVar[str] = "quantileclip"  # type: ignore[misc]

    quantile: float = 0.999
    decay: float = 0.99

    def check(self) -> None:
        if not 0 < self.quantile < 1:
            raise GafError(f"QuantileClip: quantile must lie between 0 and 1, got {self.quantile}")
        if not 0 <= self.decay < 1:
            raise GafError(f"QuantileClip: decay must be at least 0 and below 1, got {self.decay}")

    @property
    def is_bound(self) -> bool:
        return True

    def bound_to(self, group: Mapping[str, Any]) -> QuantileClip:
        """The same: nothing is read off a group."""
        return self

    @property
    def curve(self) -> ScaledCurve:
        return CURVE

    def factors(self, m: Tensor, size: Tensor, rate: Any) -> tuple[Tensor, Tensor]:
        return m, 1 / m
