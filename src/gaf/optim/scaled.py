r"""Scaled: f of what it acts on over the size of the tensor that it acts on.

With x what f acts on in one tensor, and s its size (its norm, its largest magnitude, or a quantile of its
magnitudes) in this step, or running along with the logarithm of it:

.. math:: f(x) = s^{\mathrm{keep}}\, \alpha\, h(\beta x / s)

where h is a function of the family, such as tanh. With ``keep=0`` a step does not depend on how large the
gradients of a tensor are; with ``keep=1`` the learning rate keeps its level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from torch import Tensor

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.functions import Adaptive, AlphaBeta, Line, ScaledCurve, function_type, register
from gaf.functions.base import check_positive, parameter
from gaf.functions.registry import is_registered, names
from gaf.optim.sizes import SIZES

LINE = Line.name  # the control: the same scales without a bend


@register
class Scaled(Adaptive):
    """A function of the family on each tensor over its own size, as AlphaGrad's tanh(a g / norm(g)).

    Give it where an activation is given; see docs/auto.md.

    Args:
        alpha: of the function.
        beta: of the function, for elements that are as large as the size.
        by: the size of a tensor: ``"norm"`` (of all its elements, over all processes), ``"max"`` (the largest
            magnitude), ``"top"`` (the magnitude of the largest element), or a number between 0 and 1, the
            quantile of the magnitudes of a sample.
        eps: added to the size.
        decay: of a running size, from 0, which is this step's alone, up to but not including 1.
        keep: f is multiplied by this power of the size, from 0 to 1.
        function: the name of a function of alpha and beta, or ``"line"``, their slope alone.

    Example:
        >>> import gaf, torch
        >>> w = torch.zeros(2, requires_grad=True)
        >>> opt = gaf.SGD([w], lr=1.0, activation=gaf.Scaled(1.0, 1.0, by="norm", function="tanh"))
        >>> (30 * w[0] + 40 * w[1]).backward()
        >>> opt.step()
        >>> w.detach()
        tensor([-0.5370, -0.6640])
    """

    alpha: float = 1.0
    beta: float = 1.0
    by: str | float = "norm"
    eps: float = 0.0
    decay: float = 0.0
    keep: float = 0.0
    function: str = "tanh"

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "function" and not (field.name == "by" and isinstance(self.by, str)):
                object.__setattr__(self, field.name, parameter(self, field.name))
        check_positive(self, alpha=self.alpha, beta=self.beta)
        if isinstance(self.by, str) and self.by not in SIZES:
            raise GafError(f"Scaled has no size {self.by!r}{did_you_mean(self.by, SIZES)}")
        if not (isinstance(self.by, str) or 0 < self.by < 1):
            raise GafError(f"Scaled: a quantile must lie between 0 and 1, got {self.by}")
        if not 0 <= self.eps < math.inf:
            raise GafError(f"Scaled: eps must be at least 0 and finite, got {self.eps}")
        if not 0 <= self.decay < 1:
            raise GafError(f"Scaled: decay must be at least 0 and below 1, got {self.decay}")
        if not 0 <= self.keep <= 1:
            raise GafError(f"Scaled: keep must lie between 0 and 1, got {self.keep}")
        if not isinstance(self.function, str):
            raise TypeError(f"Scaled: function must be a name, got {type(self.function).__name__}")
        if self.function != LINE and not _has_alpha_and_beta(self.function):
            known = (*filter(_has_alpha_and_beta, names()), LINE)
            raise GafError(
                f"Scaled takes a function of alpha and beta, and {self.function!r} is none"
                f"{did_you_mean(self.function, known)}"
            )

    @property
    def measure(self) -> str | float:
        return self.by

    @property
    def is_bound(self) -> bool:
        return True

    def bound_to(self, group: Mapping[str, Any]) -> Scaled:
        """The same: nothing is read off a group."""
        return self

    @property
    def controls(self) -> tuple[Scaled, ...]:
        return () if self.function == LINE else (replace(self, function=LINE),)

    @property
    def curve(self) -> ScaledCurve:
        return _curve(self.function)

    def factors(self, m: Tensor, size: Tensor, rate: Any) -> tuple[Tensor, Tensor]:
        s = m + self.eps
        return self.alpha * s**self.keep, self.beta / s


def _has_alpha_and_beta(name: str) -> bool:
    return is_registered(name) and issubclass(function_type(name), AlphaBeta)


_LINE = ScaledCurve(
    lambda xp, g, alpha, beta: Line.formula(xp, g, alpha * beta),
    slope=lambda alpha, beta: alpha * beta,
    bound=lambda alpha, beta: math.inf * alpha,
)


def _curve(name: str) -> ScaledCurve:
    """A function by its name, of alpha and beta, which are set for each tensor."""
    if name == LINE:
        return _LINE
    kind = function_type(name)
    unit = kind(1.0, 1.0).bound  # type: ignore[call-arg]
    return ScaledCurve(
        kind.formula,
        slope=lambda alpha, beta: alpha * beta,
        bound=lambda alpha, beta: unit * alpha,
    )
