r"""WHERE f acts: the three placements, one tensor at a time, as the reference.

With momentum :math:`\mu`, dampening :math:`\tau`, learning rate :math:`\eta`, weight decay
:math:`\lambda`, and the gradient :math:`\nabla` (negated first for ``maximize``):

- ``gradient``: :math:`v \leftarrow \mu v + (1-\tau)(f(\nabla) + \lambda w)`, then
  :math:`w \leftarrow w - \eta u`. What the paper does for SGD and Adam.
- ``momentum``: :math:`v \leftarrow \mu v + (1-\tau)(\nabla + \lambda w)`, then
  :math:`w \leftarrow w - \eta f(u)`. What the authors' scripts ran.
- ``update``: :math:`v \leftarrow \mu v - (1-\tau)\,\eta(\nabla + \lambda w)`, then
  :math:`w \leftarrow w + f(u)`. The paper's Algorithm 1: the learning rate is inside f.

Here u is v, or for Nesterov the new term plus :math:`\mu v`. The first v is the first term, without
dampening, as in torch. The velocity carried on is the one before f.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

PLACEMENTS = ("gradient", "momentum", "update")


def _in_float32(rule: Callable[..., Tensor | None]) -> Callable[..., Tensor | None]:
    """Let a rule compute in float32 on half-precision tensors, and round once at the end."""

    @wraps(rule)
    def wide_rule(w: Tensor, g: Tensor, v: Tensor | None, f: Any, **hyper: Any) -> Tensor | None:
        wide = torch.promote_types(w.dtype, torch.float32)
        if wide == w.dtype:
            return rule(w, g, v, f, **hyper)
        wide_w = w.to(wide)
        wide_v = rule(wide_w, g.to(wide), None if v is None else v.to(wide), f, **hyper)
        w.copy_(wide_w)
        if v is None or wide_v is None:
            return None if wide_v is None else wide_v.to(w.dtype)
        return v.copy_(wide_v)

    return wide_rule


@_in_float32
def sgd(
    w: Tensor,
    g: Tensor,
    v: Tensor | None,
    f: Callable[[Tensor], Tensor],
    *,
    placement: str,
    lr: float | Tensor,
    momentum: float,
    dampening: float,
    weight_decay: float | Tensor,
    nesterov: bool,
    maximize: bool,
) -> Tensor | None:
    """One step of ``w`` in place; returns the velocity to carry on. ``g`` is not touched."""
    d = -g if maximize else g
    if placement == "gradient":
        d = f(d)
    if weight_decay != 0:
        # differentiable: w is written to below, and autograd may need it as it is here
        d = _add(d, w.clone() if torch.is_grad_enabled() else w, weight_decay)
    if placement == "update":
        d = _scale(d, -lr)

    u = d
    if momentum != 0:
        if v is None:
            v = d.clone()
        elif torch.is_grad_enabled():  # differentiable: autograd may need the old v
            v = v.mul(momentum).add(d, alpha=1 - dampening)
        else:
            v.mul_(momentum).add_(d, alpha=1 - dampening)
        u = _add(d, v, momentum) if nesterov else v

    if placement == "update":
        w.add_(f(u))
    elif placement == "momentum":
        _add_(w, f(u), -lr)
    else:
        _add_(w, u, -lr)
    return v


# A tensor a (alpha= takes numbers only) and a compiled step (which alpha= would compile anew for each
# number) form a * x first; otherwise alpha= saves a pass over memory.


def _scale(x: Tensor, a: float | Tensor) -> Tensor:
    """a * x."""
    return x * (a.reshape(()) if isinstance(a, Tensor) else a)


def _add(y: Tensor, x: Tensor, a: float | Tensor) -> Tensor:
    """y + a * x."""
    if isinstance(a, Tensor) or torch.compiler.is_compiling():
        return y + _scale(x, a)
    return y.add(x, alpha=a)


def _add_(y: Tensor, x: Tensor, a: float | Tensor) -> Tensor:
    """y + a * x, in place."""
    if isinstance(a, Tensor) or torch.compiler.is_compiling():
        return y.add_(_scale(x, a))
    return y.add_(x, alpha=a)
