r"""Auto: alpha and beta of each tensor, set while training.

With x what f acts on in one tensor, m the running quantile of abs(x), s the root mean square of the
tensor's weights when Auto first saw it (0.1 for vectors: biases, and gains of norm layers), and
:math:`\eta_0` the group's learning rate before any schedule:

.. math:: f(x) = \alpha \arctan(\beta x), \qquad \beta = 1 / m, \qquad \alpha = \mathrm{step}\, s / \eta_0

so that :math:`\eta f(x)` is at most :math:`\frac{\pi}{2}\,\mathrm{step}\, s\, \eta / \eta_0`: a share of the
tensor's own size, whatever the size of its gradients and whatever the learning rate begins with. In the
placement ``update``, where f gives the step itself, :math:`\alpha = \mathrm{step}\, s\, \eta / \eta_0`.
:mod:`gaf.optim.adapt` keeps m and s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Adaptive, register
from gaf.functions.base import parameter


@register
class Auto(Adaptive):
    """An activation that needs no alpha and beta: it sets them for each tensor, online.

    Give it where an activation is given. It is an arctan whose width follows the typical magnitude of
    what it acts on, and whose range is a share of the tensor's own size; see docs/auto.md.

    Args:
        step: alpha times the learning rate, as a share of the root mean square of the tensor's weights.
        quantile: which quantile of the magnitudes ends the linear part, between 0 and 1.
        decay: of the running quantile, from 0 up to but not including 1.
        lr: the learning rate that stands for a whole step. Unset: the group's own, the one that a scheduler
            starts from, so that the level of ``lr`` cancels and its schedule remains.

    Example:
        >>> import gaf, torch
        >>> model = torch.nn.Linear(4, 2)
        >>> opt = gaf.SGD(model.parameters(), lr=0.1, activation=gaf.Auto())
        >>> gaf.activation_of(opt.param_groups[0])
        Auto(step=0.03, quantile=0.5, decay=0.99, lr=0.1)
    """

    function: ClassVar[str] = "arctan"
    usual_placement: ClassVar[str] = "gradient"  # behind the momentum it trained worse

    step: float = 0.03
    quantile: float = 0.5
    decay: float = 0.99
    lr: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "lr" or self.lr is not None:
                object.__setattr__(self, field.name, parameter(self, field.name))
        for name in ("step", "lr"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise GafError(f"Auto: {name} must be positive and finite, got {value}")
        if not 0 < self.quantile < 1:
            raise GafError(f"Auto: quantile must lie between 0 and 1, got {self.quantile}")
        if not 0 <= self.decay < 1:
            raise GafError(f"Auto: decay must be at least 0 and below 1, got {self.decay}")

    @property
    def is_bound(self) -> bool:
        return self.lr is not None

    def bound_to(self, group: Mapping[str, Any]) -> Auto:
        """The same for a parameter group: a learning rate that is unset is the group's."""
        if self.lr is not None:
            return self
        lr = _whole_rate(group)
        if lr is None:
            raise GafError(
                "Auto measures steps by the learning rate, and the optimizer has none: pass gaf.Auto(lr=...)"
            )
        if not 0 < float(lr) < math.inf:
            raise GafError(
                f"Auto measures steps by the learning rate, and the group's is {float(lr)}: make the "
                "optimizer with the rate of a whole step, or pass gaf.Auto(lr=...)"
            )
        return replace(self, lr=float(lr))

    def facts(self, values: Tensor) -> tuple[Tensor, Tensor]:
        alpha, beta = values
        return alpha * beta, alpha * math.pi / 2


def _whole_rate(group: Mapping[str, Any]) -> Any:
    """The rate of a whole step: Auto's so far, else the one a scheduler starts from, else the group's."""
    held = group["gaf_params"][-1] if group.get("gaf_function") == Auto.name else None
    return held or group.get("initial_lr", group.get("lr"))
