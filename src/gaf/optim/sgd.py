"""SGD with a gradient activation function in one of three places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from torch.optim.sgd import sgd as torch_sgd

from gaf.functions import Activation
from gaf.optim.base import ActivatedOptimizer, Column
from gaf.optim.description import PLACEMENTS, Rule
from gaf.optim.settings import Acting, Group

_TORCHS = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")


# In the placement "update" the learning rate of every past step is baked into the velocity: it is kept apart
# from torch's.
_VELOCITY, _BAKED = "momentum_buffer", "gaf_velocity"


def _usual_placement(group: Mapping[str, Any]) -> str:
    """Behind the velocity if there is one."""
    return "momentum" if group["momentum"] > 0 else "gradient"


def _control(group: Mapping[str, Any], placement: str) -> dict[str, int]:
    """lr times the slope; a decay that f does not see is divided by it."""
    unseen = placement == "gradient" or group.get("decoupled_weight_decay", False)
    return {"lr": 1, "weight_decay": -1} if unseen and group["weight_decay"] != 0 else {"lr": 1}


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
        decoupled_weight_decay: shrink the weights by lr times ``weight_decay`` before the step, as
            :class:`torch.optim.AdamW` does, instead of adding it to the gradient.

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
        arguments=(*_TORCHS, "decoupled_weight_decay"),
        placements=PLACEMENTS,
        usual_placement=_usual_placement,
        control=_control,
        native=("gradient", "momentum", "update"),
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
        decoupled_weight_decay: bool = False,
    ) -> None:
        self._begin(activation, placement, decoupled_weight_decay=decoupled_weight_decay)
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
        params = list(group["params"])
        grads = [p.grad for p in params]
        if type(None) in set(map(type, grads)):
            params = [p for p, g in zip(params, grads, strict=True) if g is not None]
            grads = [g for g in grads if g is not None]
        key = _BAKED if acting.placement == "update" else _VELOCITY
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
        numbers = {name: group[name] for name in _TORCHS}
        if group["decoupled_weight_decay"]:
            if not self._skipping():
                for p in params:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
            numbers["weight_decay"] = 0
        torch_sgd(
            params,
            grads,
            velocities,
            has_sparse_grad=sparse,
            foreach=group["foreach"],
            fused=group["fused"],
            **self._loss_scale(),  # type: ignore[arg-type]
            **numbers,
        )
        if group["momentum"] != 0 and (first or group["differentiable"]) and not self._skipping():
            for p, velocity in zip(params, velocities, strict=True):
                self.state[p][_VELOCITY] = velocity

    def _from_torch(self, group: Group, state: dict[Any, Any]) -> None:
        if group["gaf_placement"] == "update":
            for index in group["params"]:
                entry = dict(state.get(index, {}))
                buffer = entry.pop(_VELOCITY, None)
                if buffer is not None:
                    state[index] = {**entry, _BAKED: buffer * -group["lr"]}
