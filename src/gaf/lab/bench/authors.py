"""The authors' formulation, written from its description: a Python loop, several passes over memory.

It is the placement ``"momentum"``. Log goes through ReLU, as in the description; that rounds tiny gradients
to 0 where :class:`gaf.Log` does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

FORMULAS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    "arctan": lambda x, alpha, beta: alpha * torch.atan(beta * x),
    "tanh": lambda x, alpha, beta: alpha * torch.tanh(beta * x),
    "log": lambda x, alpha, beta: (
        alpha * (torch.log(torch.relu(beta * x) + 1) - torch.log(torch.relu(-beta * x) + 1))
    ),
}


@torch.no_grad()
def authors_step(
    params: Sequence[Tensor],
    velocities: Sequence[Tensor],
    function: str,
    alpha: float,
    beta: float,
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
) -> None:
    """One step, in place, of parameters whose velocities exist already."""
    f = FORMULAS[function]
    for p, velocity in zip(params, velocities, strict=True):
        assert p.grad is not None
        d_p = p.grad.add(p, alpha=weight_decay)
        velocity.mul_(momentum).add_(d_p)
        p.add_(f(velocity, alpha, beta), alpha=-lr)
