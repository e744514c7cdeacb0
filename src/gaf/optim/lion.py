"""Lion with a function in the place of its sign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.optim.base import ActivatedOptimizer, Column
from gaf.optim.description import Rule
from gaf.optim.settings import Acting, Group


def _refusal(group: Mapping[str, Any], placement: str, f: Activation | None) -> str | None:
    if placement == "momentum":
        return None
    return f'Lion takes placement="momentum" only, got {placement!r}: f stands in the place of its sign'


def _control(group: Mapping[str, Any], placement: str) -> dict[str, int]:
    """lr times the slope, and the decay, which f does not see, divided by it."""
    return {"lr": 1, "weight_decay": -1} if group["weight_decay"] != 0 else {"lr": 1}


# What acts in a group without an activation.
class _Sign:
    formula = staticmethod(lambda xp, x: xp.sign(x))


_SIGN = Acting(None, "momentum", "sign", _Sign, ())


class Lion(ActivatedOptimizer, torch.optim.Optimizer):
    r"""Lion (Chen et al., 2023), whose sign may be any function.

    :math:`w \leftarrow w - \eta\,(f(\beta_1 m + (1-\beta_1)\nabla) + \lambda w)`, then
    :math:`m \leftarrow \beta_2 m + (1-\beta_2)\nabla`.

    Args:
        params: parameters, or groups of them.
        lr: the learning rate, a third to a tenth of Adam's.
        betas: of the direction, and of the running mean.
        weight_decay: decoupled: it does not pass through f.
        foreach, maximize, differentiable, fused: as in :class:`torch.optim.SGD`.
        activation: as in :class:`gaf.SGD`; None is the sign.
        placement: ``"momentum"``, the only one: f stands in the place of the sign.

    Example:
        >>> import gaf, torch
        >>> model = torch.nn.Linear(4, 2)
        >>> opt = gaf.Lion(model.parameters(), lr=1e-4, activation=gaf.Tanh(1.0, 100.0))
        >>> model(torch.ones(3, 4)).sum().backward()
        >>> opt.step()
    """

    rule = Rule(
        name="lion",
        arguments=("lr", "betas", "weight_decay", "maximize"),
        placements=("momentum",),
        usual_placement=lambda group: "momentum",
        control=_control,
        refusal=_refusal,
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        activation: Activation | str | None = None,
        placement: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise GafError("a tensor lr holds one element")
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise GafError(f"{name} must be at least 0, got {value}")
        for beta in betas:
            if not 0 <= beta < 1:
                raise GafError(f"betas must be at least 0 and below 1, got {betas}")
        self._begin(activation, placement)
        defaults = {
            "lr": lr,
            "betas": betas,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _step_without(self, group: Group) -> None:
        self._step_group(None, group, _SIGN)

    def _gather(
        self, group: Group, acting: Acting
    ) -> tuple[list[Tensor], list[Tensor], dict[str, Column], list[Tensor]]:
        params = [p for p in group["params"] if p.grad is not None]
        for p in params:
            if p.grad.is_sparse:
                raise RuntimeError("Lion does not support sparse gradients")
            if "exp_avg" not in self.state[p]:
                self.state[p]["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        means = [self.state[p]["exp_avg"] for p in params]
        return params, [p.grad for p in params], {"exp_avg": means}, []
