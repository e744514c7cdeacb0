r"""Auto: alpha and beta of each tensor, set while training.

With x what f acts on in one tensor, m the running quantile of abs(x), s the root mean square of the
tensor's weights when Auto first saw it (0.1 for vectors: biases, and gains of norm layers), and
:math:`\eta_0` the group's learning rate before any schedule:

.. math:: f(x) = \alpha \arctan(\beta x), \qquad \beta = 1 / m, \qquad \alpha = \mathrm{step}\, s / \eta_0

so that :math:`\eta f(x)` is at most :math:`\frac{\pi}{2}\,\mathrm{step}\, s\, \eta / \eta_0`: a share of the
tensor's own size, whatever the size of its gradients and whatever the learning rate begins with. On Adam's
ratio of moments, whose unit is 1, m is 1, and alpha is multiplied by 3 (Adam's momentum averages where SGD's
sums) and by the tensor's pace, which grows while gradients agree with the momentum and falls while they undo
it. In the placement ``update``, where f gives the step itself, alpha is multiplied by :math:`\eta`.
:mod:`gaf.optim.adapt` keeps m, s and the pace.

:data:`CURVES` has the arctan and its controls: the same m, s and step with another curve, which gives the
quantile the same step, :math:`f(m) = \frac{\pi}{4} \alpha`. So what the bend does is told apart from what the
scaling of each tensor does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

from torch import Tensor

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.functions import Adaptive, Arctan, Clip, Line, ScaledCurve, Sign, register
from gaf.functions.base import parameter

QUARTER = math.pi / 4  # arctan(1), which is f(m) / alpha

# By the name of the function, of alpha and beta = 1 / m. All have f(m) = QUARTER alpha.
CURVES: dict[str, ScaledCurve] = {
    "arctan": ScaledCurve(
        Arctan.formula,
        slope=lambda alpha, beta: alpha * beta,
        bound=lambda alpha, beta: alpha * math.pi / 2,
    ),
    # through (m, f(m)), and never bent
    "line": ScaledCurve(
        lambda xp, g, alpha, beta: Line.formula(xp, g, QUARTER * alpha * beta),
        slope=lambda alpha, beta: QUARTER * alpha * beta,
        bound=lambda alpha, beta: math.inf * alpha,
    ),
    # the same line up to 2 m, where it reaches the arctan's bound
    "clip": ScaledCurve(
        lambda xp, g, alpha, beta: Clip.formula(
            xp, QUARTER * alpha * beta * g, 2 * QUARTER * alpha
        ),
        slope=lambda alpha, beta: QUARTER * alpha * beta,
        bound=lambda alpha, beta: 2 * QUARTER * alpha,
    ),
    # of every element what the quantile has
    "sign": ScaledCurve(
        lambda xp, g, alpha, beta: Sign.formula(xp, g, QUARTER * alpha),
        slope=lambda alpha, beta: math.inf * alpha,
        bound=lambda alpha, beta: QUARTER * alpha,
    ),
}
CONTROLS = tuple(name for name in CURVES if name != "arctan")


@register
class Auto(Adaptive):
    """An activation that needs no alpha and beta: it sets them for each tensor, online.

    Give it where an activation is given. It is an arctan whose width follows the typical magnitude of
    what it acts on, and whose range is a share of the tensor's own size; with Adam it acts on the ratio of
    the moments. See docs/auto.md.

    Args:
        step: alpha times the learning rate, as a share of the root mean square of the tensor's weights.
        quantile: which quantile of the magnitudes ends the linear part, between 0 and 1.
        decay: of the running quantile, from 0 up to but not including 1.
        lr: the learning rate that stands for a whole step. Unset: the group's own, the one that a scheduler
            starts from, so that the level of ``lr`` cancels and its schedule remains.
        function: ``"arctan"``, or one of its controls ``"line"``, ``"clip"`` and ``"sign"``, which differ
            from it by the curve alone.

    Example:
        >>> import gaf, torch
        >>> model = torch.nn.Linear(4, 2)
        >>> opt = gaf.SGD(model.parameters(), lr=0.1, activation=gaf.Auto())
        >>> gaf.activation_of(opt.param_groups[0])
        Auto(step=0.03, quantile=0.5, decay=0.99, lr=0.1, function='arctan')
    """

    version: ClassVar[int] = 2
    measures_ratios: ClassVar[bool] = False
    later: ClassVar[int] = 1  # the function

    step: float = 0.03
    quantile: float = 0.5
    decay: float = 0.99
    lr: float | None = None
    function: str = "arctan"

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "function" and (field.name != "lr" or self.lr is not None):
                object.__setattr__(self, field.name, parameter(self, field.name))
        if not isinstance(self.function, str):
            raise TypeError(f"Auto: function must be a name, got {type(self.function).__name__}")
        if self.function not in CURVES:
            hint = did_you_mean(self.function, CURVES)
            raise GafError(f"Auto has no function {self.function!r}{hint}")
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

    def usual_placement(self, rule: str) -> str:
        """Behind SGD's momentum it trained worse; Adam would divide its scales out again."""
        return "momentum" if rule in ("adam", "adamw") else "gradient"

    @property
    def controls(self) -> tuple[Auto, ...]:
        others = CONTROLS if self.function not in CONTROLS else ()
        return tuple(replace(self, function=name) for name in others)

    @property
    def curve(self) -> ScaledCurve:
        return CURVES[self.function]

    def factors(self, m: Tensor, size: Tensor, rate: Any) -> tuple[Tensor, Tensor]:
        return self.step * size * rate / self.lr, 1 / m  # type: ignore[operator]


def _whole_rate(group: Mapping[str, Any]) -> Any:
    """The rate of a whole step: Auto's so far, else the one a scheduler starts from, else the group's."""
    own = group["gaf_params"] if group.get("gaf_function") == Auto.name else ()
    held = dict(zip(Auto.__match_args__, own, strict=False)).get("lr")
    return held or group.get("initial_lr", group.get("lr"))
