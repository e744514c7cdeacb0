r"""WHERE f acts: the rules and their placements, one tensor at a time, as the reference.

A placement means the same for every rule:

- ``gradient``: f acts on the gradient, before everything else.
- ``momentum``: f acts on the direction that the learning rate multiplies.
- ``update``: f acts on the whole step, with the learning rate inside f.

With the learning rate :math:`\eta`, weight decay :math:`\lambda`, and the gradient :math:`\nabla` (negated
first for ``maximize``), SGD has momentum :math:`\mu` and dampening :math:`\tau`:

- ``gradient``: :math:`v \leftarrow \mu v + (1-\tau)(f(\nabla) + \lambda w)`, then
  :math:`w \leftarrow w - \eta u`. What the paper does for SGD and Adam.
- ``momentum``: :math:`v \leftarrow \mu v + (1-\tau)(\nabla + \lambda w)`, then
  :math:`w \leftarrow w - \eta f(u)`. What the authors' scripts ran.
- ``update``: :math:`v \leftarrow \mu v - (1-\tau)\,\eta(\nabla + \lambda w)`, then
  :math:`w \leftarrow w + f(u)`. The paper's Algorithm 1: the learning rate is inside f.

Here u is v, or for Nesterov the new term plus :math:`\mu v`, or without momentum the term alone. The first v
is the first term, without dampening, as in torch. The velocity carried on is the one before f. A decoupled
weight decay is not seen by f: :math:`w \leftarrow (1 - \eta\lambda) w` comes first.

Adam's direction is :math:`r = \hat m / (\sqrt{\hat v} + \epsilon)`, from running means of the gradient and of
its square, with an L2 weight decay in it; a decoupled one is kept apart as for SGD:

- ``gradient``: Adam of :math:`f(\nabla)`, to which an L2 decay is added after f.
- ``momentum``: :math:`w \leftarrow w - \eta f(r)`. With arctan and :math:`\epsilon = 0` it is Adam-atan2.
- ``update``: :math:`w \leftarrow w + f(-\eta r)`.

A rule is written once. Its tensors may be lists of them, :class:`gaf.kernels.foreach.TensorList`, whose
methods are those of a tensor; and :mod:`gaf.kernels.compiled` compiles the same text. So a rule keeps to two
habits: it uses an intermediate result once, since a list gives its memory to the next, and its numbers may be
tensors of one element.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from gaf.functions.lift import real_view, writable_view

PLACEMENTS = ("gradient", "momentum", "update")

Function = Callable[[Tensor], Tensor]
Number = Any  # a float, or a tensor of one element


def _on_wide_reals(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Let a rule see real numbers of at least 32 bits.

    Complex tensors are seen by their real and imaginary parts; half precision is computed in float32 and
    rounded once at the end.
    """

    @wraps(rule)
    def wide_rule(w: Tensor, g: Tensor, *states_and_f: Any, **hyper: Any) -> Any:
        *states, f = states_and_f
        dtype = w.dtype
        wide = torch.promote_types(dtype, torch.float32)
        if wide.is_complex:
            parts = [None if s is None else writable_view(s) for s in states]
            new = rule(writable_view(w), real_view(g), *parts, f, **hyper)
            if not torch.is_grad_enabled():  # those that exist were written to
                new = [None if s is not None else part for s, part in zip(states, new, strict=True)]
            return tuple(
                state if part is None else torch.view_as_complex(part)
                for state, part in zip(states, new, strict=True)
            )
        if wide == dtype:
            return rule(w, g, *states, f, **hyper)
        wide_w = w.to(wide)
        wide_states = [None if s is None else s.to(wide) for s in states]
        new = rule(wide_w, g.to(wide), *wide_states, f, **hyper)
        w.copy_(wide_w)
        return tuple(
            part if part is None else part.to(dtype) if state is None else state.copy_(part)
            for state, part in zip(states, new, strict=True)
        )

    return wide_rule


@_on_wide_reals
def sgd(
    w: Tensor,
    g: Tensor,
    v: Tensor | None,
    f: Function,
    *,
    placement: str,
    lr: Number,
    momentum: Number,
    dampening: Number,
    weight_decay: Number,
    nesterov: bool,
    maximize: bool,
    decoupled_weight_decay: bool = False,
) -> tuple[Tensor | None]:
    """One step of ``w`` in place; returns the velocity to carry on. ``g`` is not touched."""
    d = -g if maximize else g
    if placement == "gradient":
        d = f(d)
    if not _is_zero(weight_decay):
        if decoupled_weight_decay:
            _shrink(w, lr * weight_decay)
        else:
            d = _plus(d, _now(w), weight_decay)
    if placement == "update":
        d = _times(d, -lr)

    u = d
    if not _is_zero(momentum):
        v = d.clone() if v is None else _added(_scaled(v, momentum), d, 1 - dampening)
        u = _plus(d, v, momentum) if nesterov else v
    del d  # in a list its memory is free for f(u)

    if placement == "update":
        w.add_(f(u))
    else:
        _added(w, f(u) if placement == "momentum" else u, -lr)
    return (v,)


@_on_wide_reals
def adam(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    top: Tensor | None,
    f: Function,
    *,
    placement: str,
    step: Number,
    lr: Number,
    betas: tuple[Number, Number],
    eps: Number,
    weight_decay: Number,
    decoupled_weight_decay: bool,
    maximize: bool,
    eps_hat: bool = False,
) -> tuple[Tensor | None, ...]:
    """One step of ``w`` in place; returns the moments to carry on. ``g`` is not touched.

    ``m`` and ``v`` are the running means of what Adam sees and of its square, ``top`` is the largest v so far
    for amsgrad, else None, and ``step`` is the number of this step, from 1. ``eps_hat`` adds eps before the
    bias correction.
    """
    d = -g if maximize else g
    if placement == "gradient":
        d = f(d)
    if not _is_zero(weight_decay):
        if decoupled_weight_decay:
            _shrink(w, lr * weight_decay)
        else:
            d = _plus(d, _now(w), weight_decay)
    beta1, beta2 = betas
    m = _toward(m, d, 1 - beta1)
    v = _with_square(_scaled(v, beta2), d, 1 - beta2)
    del d
    if top is not None:
        top = _raised(top, v)
    largest = v if top is None else top
    root = (1 - beta2**step) ** 0.5
    denominator = largest.sqrt()
    denominator = denominator.add(eps).div(root) if eps_hat else denominator.div(root).add(eps)
    correction = 1 - beta1**step
    if placement == "gradient":
        _with_quotient(w, m, denominator, -lr / correction)
    elif placement == "momentum":
        _added(w, f(_times(_ratio(m, denominator, eps), 1 / correction)), -lr)
    else:
        w.add_(f(_times(_ratio(m, denominator, eps), -lr / correction)))
    return m, v, top


@_on_wide_reals
def lion(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    f: Function,
    *,
    placement: str,
    lr: Number,
    betas: tuple[Number, Number],
    weight_decay: Number,
    maximize: bool,
) -> tuple[Tensor]:
    r"""One step of ``w`` in place; returns the mean to carry on. ``g`` is not touched.

    f stands in the place of the sign, the one ``placement`` that there is:
    :math:`w \leftarrow w - \eta\,(f(\beta_1 m + (1-\beta_1)\nabla) + \lambda w)`, then
    :math:`m \leftarrow \beta_2 m + (1-\beta_2)\nabla`. (Chen et al., 2023.)
    """
    d = -g if maximize else g
    beta1, beta2 = betas
    u = _plus(_times(m, beta1), d, 1 - beta1)
    if not _is_zero(weight_decay):
        _shrink(w, lr * weight_decay)
    _added(w, f(u), -lr)
    return (_added(_scaled(m, beta2), d, 1 - beta2),)


# A tensor a (alpha= takes numbers only) and a compiled step (which alpha= would compile anew for each
# number) form a * x first; otherwise alpha= saves a pass over memory.


def _is_zero(a: Number) -> bool:
    return not isinstance(a, Tensor) and a == 0


def _in_parts(a: Number) -> bool:
    return isinstance(a, Tensor) or torch.compiler.is_compiling()


def _now(w: Tensor) -> Tensor:
    """w, or a copy where autograd may need it as it is now: a rule writes into w."""
    return w.clone() if torch.is_grad_enabled() else w


def _scaled(state: Tensor, a: Number) -> Tensor:
    """a * state, in place unless autograd may need the old one."""
    if torch.is_grad_enabled():
        return _times(state, a)
    return state.mul_(a.reshape(()) if isinstance(a, Tensor) else a)


def _shrink(w: Tensor, share: Number) -> None:
    """w - share * w, in place."""
    w.mul_(1 - (share.reshape(()) if isinstance(share, Tensor) else share))


def _times(x: Tensor, a: Number) -> Tensor:
    """a * x."""
    return x.mul(a.reshape(()) if isinstance(a, Tensor) else a)


def _plus(y: Tensor, x: Tensor, a: Number) -> Tensor:
    """y + a * x."""
    return y.add(_times(x, a)) if _in_parts(a) else y.add(x, alpha=a)


def _added(y: Tensor, x: Tensor, a: Number) -> Tensor:
    """y + a * x, in place."""
    return y.add_(_times(x, a)) if _in_parts(a) else y.add_(x, alpha=a)


def _toward(m: Tensor, x: Tensor, share: Number) -> Tensor:
    """m + share * (x - m), in place unless autograd may need the old m."""
    if isinstance(share, Tensor):
        step = _times(x.sub(m), share)
        return m.add(step) if torch.is_grad_enabled() else m.add_(step)
    return m.lerp(x, share) if torch.is_grad_enabled() else m.lerp_(x, share)


def _raised(top: Tensor, v: Tensor) -> Tensor:
    """The larger of both, in place unless autograd may need the old one."""
    larger = top.maximum(v)
    return larger if torch.is_grad_enabled() else top.copy_(larger)


def _with_square(v: Tensor, x: Tensor, a: Number) -> Tensor:
    """v + a * x * x, in place."""
    return v.add_(_times(x.mul(x), a)) if _in_parts(a) else v.addcmul_(x, x, value=a)


def _ratio(m: Tensor, denominator: Tensor, eps: Number) -> Tensor:
    """m / denominator; 0 / 0, where an element has had no gradient and eps is 0, is 0."""
    return m.div(denominator.where(m.ne(0), 1)) if _is_zero(eps) else m.div(denominator)


def _with_quotient(w: Tensor, x: Tensor, divisor: Tensor, a: Number) -> Tensor:
    """w + a * x / divisor, in place."""
    if _in_parts(a):
        return w.add_(_times(x.div(divisor), a))
    return w.addcdiv_(x, divisor, value=a)
