"""The SGD rule over a list of tensors: few launches, one intermediate list.

Every operation is the one :func:`gaf.optim.rules.sgd` does, in the same order, so that the two agree
to the bit. The tensors share a device and a dtype and are dense.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, cast

import torch
from torch import Tensor


def _in_float32(rule: Callable[..., list[Tensor | None]]) -> Callable[..., list[Tensor | None]]:
    """Let a rule compute in float32 on half-precision tensors, and round once at the end."""

    @wraps(rule)
    def wide_rule(
        ws: list[Tensor], gs: list[Tensor], vs: list[Tensor | None], fs: Any, **hyper: Any
    ) -> list[Tensor | None]:
        narrow = ws[0].dtype
        wide = torch.promote_types(narrow, torch.float32)
        if wide == narrow:
            return rule(ws, gs, vs, fs, **hyper)
        wide_ws, wide_gs = [w.to(wide) for w in ws], [g.to(wide) for g in gs]
        wide_vs = rule(
            wide_ws, wide_gs, [None if v is None else v.to(wide) for v in vs], fs, **hyper
        )
        torch._foreach_copy_(ws, wide_ws)
        return [
            wide_v if wide_v is None else wide_v.to(narrow) if v is None else v.copy_(wide_v)
            for v, wide_v in zip(vs, wide_vs, strict=True)
        ]

    return wide_rule


@_in_float32
def sgd(
    ws: list[Tensor],
    gs: list[Tensor],
    vs: list[Tensor | None],
    fs: Sequence[Callable[[Tensor], Tensor]],
    *,
    placement: str,
    lr: float | Tensor,
    momentum: float,
    dampening: float,
    weight_decay: float | Tensor,
    nesterov: bool,
    maximize: bool,
) -> list[Tensor | None]:
    """One step of each tensor of ``ws`` in place, by its f; returns the velocities to carry on."""
    ds, ours = gs, False  # ours: the list is our own, free to be overwritten
    if maximize:
        ds, ours = list(torch._foreach_neg(ds)), True
    if placement == "gradient":
        ds, ours = _activate(ds, fs, ours), True
    if weight_decay != 0:
        ds, ours = _add(ds, ws, weight_decay, ours), True
    if placement == "update":
        ds, ours = _scale(ds, -lr, ours), True

    us = ds
    if momentum != 0:
        new_vs = _carry(vs, ds, momentum, 1 - dampening)
        us, ours = (_add(ds, new_vs, momentum, ours), True) if nesterov else (new_vs, False)
        vs = cast("list[Tensor | None]", new_vs)
    del ds  # its memory is free for f(u)

    if placement != "gradient":
        us = _activate(us, fs, ours)
    if placement == "update":
        torch._foreach_add_(ws, us)
    else:
        _add(ws, us, -lr, True)
    return vs


def _activate(
    xs: list[Tensor], fs: Sequence[Callable[[Tensor], Tensor]], ours: bool
) -> list[Tensor]:
    """f of each; a list of ours gives up its tensors one by one."""
    ys = xs if ours else list(xs)
    for i, f in enumerate(fs):
        ys[i] = f(ys[i])
    return ys


def _carry(vs: list[Tensor | None], ds: list[Tensor], momentum: float, gain: float) -> list[Tensor]:
    """momentum * vs + gain * ds in place, and ds itself where there is no velocity yet."""
    if all(v is not None for v in vs):
        old = cast("list[Tensor]", vs)
        torch._foreach_mul_(old, momentum)
        torch._foreach_add_(old, ds, alpha=gain)
        return old
    return [
        d.clone() if v is None else v.mul_(momentum).add_(d, alpha=gain)
        for v, d in zip(vs, ds, strict=True)
    ]


def _add(ys: list[Tensor], xs: list[Tensor], a: float | Tensor, ours: bool) -> list[Tensor]:
    """ys + a * xs, in place where ``ys`` is ours."""
    if isinstance(a, Tensor) or torch.compiler.is_compiling():
        xs, a = _scale(xs, a, False), 1.0  # alpha= takes numbers only, and compiles for each anew
    if ours:
        torch._foreach_add_(ys, xs, alpha=a)
        return ys
    return list(torch._foreach_add(ys, xs, alpha=a))


def _scale(xs: list[Tensor], a: float | Tensor, ours: bool) -> list[Tensor]:
    """a * xs, in place where ``xs`` is ours."""
    if isinstance(a, Tensor):
        a = a.reshape(())
    elif torch.compiler.is_compiling():  # _foreach_mul would be compiled anew for each number
        return [x * a for x in xs]
    if ours:
        torch._foreach_mul_(xs, a)
        return xs
    return list(torch._foreach_mul(xs, a))
