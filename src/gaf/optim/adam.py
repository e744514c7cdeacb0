"""Adam and AdamW on activated gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gaf.functions import Activation, Adaptive
from gaf.optim import _torch
from gaf.optim.base import ActivatedOptimizer, Column
from gaf.optim.description import PLACEMENTS, Rule
from gaf.optim.settings import Acting, Group


def _control(group: Mapping[str, Any], placement: str) -> dict[str, int]:
    """The argument that f's slope changes, and a decay that f does not see, divided by the slope.

    On the gradient the ratio of the moments hides the slope from all but eps.
    """
    first = placement == "gradient"
    powers = {"eps": -1} if first else {"lr": 1}
    if group["weight_decay"] != 0 and group["decoupled_weight_decay"] != first:
        powers["weight_decay"] = -1
    return powers


def _refusal(group: Mapping[str, Any], placement: str, f: Activation | None) -> str | None:
    if placement == "gradient" or group.get("eps") != 0:
        return None
    if f is None or isinstance(f, Adaptive) or f.bound < math.inf:
        return None
    return (
        f"eps=0 needs a bounded function where f acts on the ratio of the moments, which has no bound of its "
        f"own; {f.name} has none: give an eps, or a function such as arctan"
    )


# What acts in a group with eps_hat and without an activation.
class _Identity:
    formula = staticmethod(lambda xp, x: x)


_IDENTITY = Acting(None, "gradient", "identity", _Identity, ())


class Adam(ActivatedOptimizer, torch.optim.Adam):
    """:class:`torch.optim.Adam` with an activation.

    Args:
        params, lr, betas, eps, weight_decay, amsgrad, foreach, maximize, capturable, differentiable,
            fused, decoupled_weight_decay: as in :class:`torch.optim.Adam`.
        activation: as in :class:`gaf.SGD`.
        placement: ``"gradient"``, ``"momentum"`` (f on the ratio of the moments) or ``"update"``, see
            :mod:`gaf.optim.rules`. Unset: ``"gradient"``. Where f is bounded and acts on the ratio, ``eps``
            may be 0: an element that has had no gradient stays where it is.
        eps_hat: add ``eps`` before the bias correction of the second moment, as Kingma and Ba's efficient
            variant does, and the code of the paper's authors.

    Example:
        >>> import gaf, torch
        >>> opt = gaf.Adam([torch.zeros(3, requires_grad=True)], activation="tanh(0.2, 10)")
        >>> atan2 = gaf.Adam(
        ...     [torch.zeros(3, requires_grad=True)],
        ...     activation="arctan(1, 1)",
        ...     placement="momentum",
        ...     eps=0,
        ... )

    Reference:
        Liu et al., "Activated Gradients for Deep Neural Networks", Section IV-A.
    """

    rule = Rule(
        name="adam",
        arguments=(
            *(
                "lr",
                "betas",
                "eps",
                "weight_decay",
                "decoupled_weight_decay",
                "maximize",
                "eps_hat",
            ),
        ),
        placements=PLACEMENTS,
        usual_placement=lambda group: "gradient",
        control=_control,
        refusal=_refusal,
        counts=True,
        native=("gradient", "momentum", "update"),
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        activation: Activation | str | None = None,
        placement: str | None = None,
        eps_hat: bool = False,
    ) -> None:
        decoupled = {"decoupled_weight_decay": decoupled_weight_decay}
        theirs, ours = (decoupled, {}) if _torch.ADAM_DECOUPLES else ({}, decoupled)
        self._begin(activation, placement, eps_hat=eps_hat, **ours)
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            **theirs,
        )

    def _gather(
        self, group: Group, acting: Acting
    ) -> tuple[list[Tensor], list[Tensor], dict[str, Column], list[Tensor]]:
        params, grads, ms, vs, tops, counters, _ = self._collected(group, acting.adaptive)
        columns = {"exp_avg": ms, "exp_avg_sq": vs, "max_exp_avg_sq": tops or [None] * len(params)}
        return params, grads, columns, counters

    def _collected(self, group: Group, traced: bool = False) -> tuple[Any, ...]:
        """What torch's ``_init_group`` collects and makes, and whether a parameter is complex.

        Under its own name torch.compile runs it instead of tracing it, and an activation with state would not
        see what it has made for a later group.
        """
        getattr(self, _torch.GRAPH_CAPTURE_CHECK)()
        lists: list[list[Tensor]] = [[] for _ in range(6)]
        if traced:
            has_complex = torch.optim.Adam._init_group(self, group, *lists)
        else:
            has_complex = self._init_group(group, *lists)
        return *lists, has_complex

    def _step_without(self, group: Group) -> None:
        if group["eps_hat"]:  # torch has no such step
            self._step_group(None, group, _IDENTITY)
            return
        *lists, has_complex = self._collected(group)
        beta1, beta2 = group["betas"]
        names = ("amsgrad", "lr", "weight_decay", "eps", "maximize", "foreach", "capturable")
        names += ("differentiable", "fused")
        _torch.adam(
            *lists,
            has_complex=has_complex,
            beta1=beta1,
            beta2=beta2,
            decoupled_weight_decay=group["decoupled_weight_decay"],
            **{name: group[name] for name in names},
            **self._loss_scale(),
        )


class AdamW(Adam, torch.optim.AdamW):
    """:class:`torch.optim.AdamW` with an activation; the weight decay does not pass through f.

    Args:
        params, lr, betas, eps, weight_decay, amsgrad, maximize, foreach, capturable, differentiable,
            fused: as in :class:`torch.optim.AdamW`.
        activation: as in :class:`gaf.SGD`.
        placement, eps_hat: as in :class:`gaf.Adam`.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        activation: Activation | str | None = None,
        placement: str | None = None,
        eps_hat: bool = False,
    ) -> None:
        ours = {} if _torch.ADAM_DECOUPLES else {"decoupled_weight_decay": True}
        self._begin(activation, placement, eps_hat=eps_hat, **ours)
        torch.optim.AdamW.__init__(
            self,
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )
