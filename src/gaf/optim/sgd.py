"""SGD with a gradient activation function in one of three places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from torch.optim.sgd import sgd as torch_sgd

from gaf.functions import Activation
from gaf.optim import rules
from gaf.optim.base import ActivatedOptimizer, Column
from gaf.optim.description import Rule
from gaf.optim.settings import VELOCITY, Acting, Group

_ARGUMENTS = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")


def _usual_placement(group: Mapping[str, Any]) -> str:
    """Behind the velocity if there is one."""
    return "momentum" if group["momentum"] > 0 else "gradient"


def _control(group: Mapping[str, Any], placement: str) -> dict[str, int]:
    """lr times the slope; on the gradient the decay, which f does not see, is divided by it."""
    apart = placement == "gradient" and group["weight_decay"] != 0
    return {"lr": 1, "weight_decay": -1} if apart else {"lr": 1}


def _refusal(group: Mapping[str, Any], placement: str) -> str | None:
    momentum = group["momentum"]
    if placement == "momentum" and not momentum > 0:
        return (
            f'placement="momentum" needs a momentum above 0, got momentum={momentum}; set one, or use '
            'placement="gradient"'
        )
    return None


class SGD(ActivatedOptimizer, torch.optim.SGD):
    """:class:`torch.optim.SGD` with an activation.

    Args:
        params, lr, momentum, dampening, weight_decay, nesterov, maximize, foreach, differentiable,
            fused: as in :class:`torch.optim.SGD`.
        activation: a function such as ``gaf.Arctan(0.1, 20)``, its name ``"arctan(0.1, 20)"``,
            ``gaf.Auto()``, or None, which is torch's own step to the bit. A group may carry an
            ``activation`` of its own.
        placement: ``"gradient"``, ``"momentum"`` or ``"update"``, see :mod:`gaf.optim.rules`. Unset:
            ``"momentum"`` with momentum, ``"gradient"`` without it and for :class:`gaf.Auto`.

    Example:
        >>> import gaf, torch
        >>> model = torch.nn.Linear(4, 2)
        >>> opt = gaf.SGD(model.parameters(), lr=0.1, momentum=0.9, activation=gaf.Arctan(0.1, 20))
        >>> model(torch.ones(3, 4)).sum().backward()
        >>> opt.step()

    Reference:
        Liu et al., "Activated Gradients for Deep Neural Networks", Algorithm 1 (``"update"``).
    """

    rule = Rule(
        name="sgd",
        arguments=_ARGUMENTS,
        placements=rules.PLACEMENTS,
        usual_placement=_usual_placement,
        control=_control,
        refusal=_refusal,
        native=True,
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
        activation: Activation | str | None = None,
        placement: str | None = None,
    ) -> None:
        self._begin(activation, placement)
        super().__init__(
            params,
            lr,
            momentum,
            dampening,
            weight_decay,
            nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )

    def _gather(
        self, group: Group, acting: Acting
    ) -> tuple[list[Tensor], list[Tensor], dict[str, Column], list[Tensor]]:
        """What torch's ``_init_group`` does, for a group with an activation.

        Under its own name torch.compile runs it, and knows of a velocity only if the first parameter of all
        has one: without a gradient there, the velocities of the others would begin anew at every step.
        """
        params = [p for p in group["params"] if p.grad is not None]
        grads = [p.grad for p in params]
        key = VELOCITY[acting.placement]
        if group["momentum"] == 0:
            return params, grads, {key: [None] * len(params)}, []
        state = self.state
        return params, grads, {key: [state[p].get(key) for p in params]}, []

    def _step_without(self, group: Group) -> None:
        params: list[Tensor] = []
        grads: list[Tensor] = []
        velocities: list[Tensor | None] = []
        sparse = self._init_group(group, params, grads, velocities)
        first = any(v is None for v in velocities)
        torch_sgd(
            params,
            grads,
            velocities,
            has_sparse_grad=sparse,
            foreach=group["foreach"],
            fused=group["fused"],
            **self._loss_scale(),  # type: ignore[arg-type]
            **{name: group[name] for name in _ARGUMENTS},
        )
        if group["momentum"] != 0 and (first or group["differentiable"]) and not self._skipping():
            for p, velocity in zip(params, velocities, strict=True):
                self.state[p][VELOCITY[None]] = velocity
