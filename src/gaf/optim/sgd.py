"""SGD with a gradient activation function in one of three places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT, _use_grad_for_differentiable
from torch.optim.sgd import sgd as torch_sgd

from gaf.functions import Activation
from gaf.kernels import foreach
from gaf.kernels.native import Tangled
from gaf.optim import rules
from gaf.optim.auto import Auto
from gaf.optim.base import ActivatedOptimizer
from gaf.optim.select import implementation, kernels, without_kernels
from gaf.optim.settings import (
    VELOCITY,
    Group,
    formulas_of,
    is_active,
    kernel_of,
    sgd_placement,
)


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
        activation: Activation | Auto | str | None = None,
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

    def _placement(self, group: Group, placement: str | None) -> str:
        return sgd_placement(group["momentum"], placement)

    def _gather(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        velocities: list[Tensor | None],
    ) -> bool:
        """What torch's ``_init_group`` does, for a group with an activation.

        Under its own name torch.compile runs it, and knows of a velocity only if the first parameter of all
        has one: without a gradient there, the velocities of the others would begin anew at every step.
        """
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                params.append(p)
                grads.append(grad)
        if group["momentum"] != 0:
            state, key = self.state, VELOCITY[group["gaf_placement"]]
            velocities.extend([state[p].get(key) for p in params])
        return False  # whether a gradient is sparse matters to torch's own rule only

    def _meaning(self, group: Group) -> str:
        if group["gaf_placement"] == "gradient" and group["weight_decay"] != 0:
            return "a learning rate times {slope} and a weight decay divided by {slope}"
        return "a learning rate times {slope}"

    def _activated_sgd(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        velocities: list[Tensor | None],
        factors: Tensor | None,
    ) -> list[Tensor | None]:
        """One group's step by the implementation that it asks for, or that suits it."""
        hyper = _rule(group)
        how = implementation(group, params, grads, velocities)
        fused = kernels(how)
        if fused is not None:
            name, known = kernel_of(group)
            values = known if factors is None else factors
            try:
                return fused.sgd(
                    params, grads, velocities, name, values, **hyper, **self._loss_scale()
                )
            except Tangled:
                if group["fused"]:
                    raise
                how = without_kernels(group, params, grads)
        fs = formulas_of(group, len(params), factors)
        if how == "single":
            return [
                rules.sgd(p, g, v, f, **hyper)
                for p, g, v, f in zip(params, grads, velocities, fs, strict=True)
            ]
        new: list[Tensor | None] = list(velocities)
        batches = Optimizer._group_tensors_by_device_and_dtype(
            [params, grads, velocities],  # type: ignore[list-item]
            with_indices=True,
        )
        for (ws, gs, vs), indices in batches.values():
            here = [fs[i] for i in indices]
            for i, v in zip(indices, foreach.sgd(ws, gs, vs, here, **hyper), strict=True):  # type: ignore[arg-type]
                new[i] = v
        return new

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Perform one step.

        Args:
            closure: evaluates the model again and returns the loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._begin_observation()
        actives = [is_active(group, rules.PLACEMENTS) for group in self.param_groups]
        for number, (group, active) in enumerate(zip(self.param_groups, actives, strict=True)):
            params: list[Tensor] = []
            grads: list[Tensor] = []
            velocities: list[Tensor | None] = []
            gather = self._gather if active else self._init_group
            sparse = gather(group, params, grads, velocities)
            first = any(v is None for v in velocities)
            if not active:
                torch_sgd(
                    params,
                    grads,
                    velocities,
                    has_sparse_grad=sparse,
                    foreach=group["foreach"],
                    fused=group["fused"],
                    **self._loss_scale(),
                    **_hyperparameters(group),
                )
            else:
                velocities = velocities or [None] * len(params)
                factors = self._adapted(group, params, grads, velocities, _rule(group))
                if self._observing():
                    seen = _inputs(params, self._unscaled(grads), velocities, group)
                    self._observe(number, seen, factors)
                if params:
                    velocities = self._activated_sgd(group, params, grads, velocities, factors)
            # Velocities that exist are carried on in place, unless autograd needs the old ones.
            if (
                (first or group["differentiable"])
                and group["momentum"] != 0
                and not self._skipping()
            ):
                key = VELOCITY[group["gaf_placement"] if active else None]
                for p, velocity in zip(params, velocities, strict=True):
                    self.state[p][key] = velocity
        return loss


def _hyperparameters(group: Group) -> dict[str, Any]:
    names = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")
    return {name: group[name] for name in names}


def _rule(group: Group) -> dict[str, Any]:
    """What :func:`gaf.optim.rules.sgd` is told of a group."""
    return {**_hyperparameters(group), "placement": group["gaf_placement"]}


def _inputs(
    params: list[Tensor],
    grads: list[Tensor],
    velocities: list[Tensor | None],
    group: Group,
) -> Iterator[Tensor]:
    """What f is going to see, found by running the reference on copies."""
    hyper = _rule(group)
    seen: list[Tensor] = []

    def tap(x: Tensor) -> Tensor:
        seen.append(x)
        return x.clone()  # what follows f does not matter here

    for p, g, v in zip(params, grads, velocities, strict=True):
        rules.sgd(p.detach().clone(), g, None if v is None else v.clone(), tap, **hyper)
        yield seen.pop()
