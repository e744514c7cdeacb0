"""The reference rules compiled by ``torch.compile``: one pass over memory, on any device that it serves.

What ``fused=True`` asks for where there is no native kernel: on GPUs, and for functions of a user's own. A
rule is compiled for each dtype, once for tensors of any size from 2 elements and once for those of one; not
again when the learning rate or the function's values change, but where a number begins or ceases to be 0.
Multiplications and additions may be contracted (FMA), so that results differ from the reference by a rounding
or two.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.functions.lift import local_shard
from gaf.kernels.layout import refusal_of_rows

Column = Sequence[Tensor | None]


def refusal(*lists: Column) -> str | None:
    """Why a compiled rule cannot serve these tensors (parallel lists), or None if it can."""
    devices = sorted({local_shard(t).device.type for t in lists[0] if t is not None})
    if "meta" in devices:
        return "tensors on the meta device have no memory"
    if len(devices) > 1:
        return f"its parameters are on several kinds of devices ({', '.join(devices)})"
    return refusal_of_rows("compiled", devices[0], lists) if devices else None


def step(
    rule: Callable[..., tuple[Any, ...]],
    formula: Callable[..., Tensor],
    ws: Sequence[Tensor],
    gs: Sequence[Tensor],
    states: Sequence[Column],
    counters: Sequence[Tensor],
    values: Tensor | tuple[float, ...],
    hyper: dict[str, Any],
    *,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> list[list[Tensor | None]]:
    """One step of a rule of :mod:`gaf.optim.rules` on each tensor; returns the states to carry on.

    Args:
        rule: the rule.
        formula: of f, as :class:`gaf.Activation` has it.
        ws: the weights, which are written to.
        gs: their gradients.
        states: lists of their states, None for one that does not exist yet: it begins as 0.
        counters: the steps so far of each tensor, for a rule that counts; they are raised by one.
        values: the parameters of f, or a row of them for each tensor.
        hyper: the rule's arguments.
        grad_scale: GradScaler's.
        found_inf: GradScaler's; where it is set nothing is changed.
    """
    flags = {key: value for key, value in hyper.items() if isinstance(value, bool | str)}
    numbers = {key: _number(value) for key, value in hyper.items() if key not in flags}
    run = _compiled(rule, formula, tuple(flags.items()))
    carried: list[list[Tensor | None]] = [list(column) for column in states]
    scale = {"grad_scale": grad_scale, "found_inf": found_inf}
    for i, (w, g) in enumerate(zip(ws, gs, strict=True)):
        own = dict(numbers)
        row = [column[i] for column in states]
        if "momentum" in numbers and row == [None]:
            if not isinstance(numbers["momentum"], float):  # 0 stays a number: there is no velocity
                row = [torch.zeros_like(w)]
                if not isinstance(numbers["dampening"], float):
                    own["dampening"] = torch.zeros_like(numbers["dampening"])
            carried[0][i] = row[0]
        if counters:
            own["step"] = counters[i].double() + 1
            counters[i].add_(1 if found_inf is None else 1 - found_inf.to(counters[i].device))
        f_values = values[i] if isinstance(values, Tensor) else _numbers(values)
        if w.numel():
            tensors = [None if t is None else _flat(t) for t in (w, g, *row)]
            _call(run, tensors, f_values, own, scale)
    return carried


def _call(run: Callable[..., None], tensors: Sequence[Tensor | None], *rest: Any) -> None:
    try:
        run(tensors, *rest)
    except torch._dynamo.exc.TorchDynamoException as error:  # type: ignore[attr-defined]
        reason = f"torch.compile does not follow the formula ({str(error).splitlines()[0]});"
        cause: BaseException | None = error
        while cause is not None:
            if type(cause).__name__ == "InvalidCxxCompiler":
                reason = "torch.compile found no C++ compiler; install one such as g++, or"
            cause = cause.__cause__ or cause.__context__
        raise RuntimeError(
            f"`fused=True` cannot be honoured: {reason} leave `fused` unset"
        ) from None


@functools.cache
def _compiled(
    rule: Callable[..., tuple[Any, ...]],
    formula: Callable[..., Tensor],
    flags: tuple[tuple[str, Any], ...],
) -> Callable[..., None]:
    """The rule on one flat tensor, to be compiled on its first call."""

    def run(
        tensors: Sequence[Tensor | None],
        values: Tensor,
        numbers: dict[str, Any],
        scale: dict[str, Tensor | None],
    ) -> None:
        w, g, *row = tensors
        assert w is not None
        assert g is not None
        if scale["grad_scale"] is not None:
            wide = g.to(torch.promote_types(g.dtype, torch.float32))
            g = wide * scale["grad_scale"].double().reciprocal().float()
        # Unbound in here: of an input of one number, torch.full_like(x, input) would compile in the value.
        own = values.unbind()
        new_w = w.clone()
        copies = [None if t is None else t.clone() for t in row]
        new = rule(new_w, g, *copies, lambda x: formula(torch, x, *own), **numbers, **dict(flags))
        for old, result in zip((w, *row), (new_w, *new), strict=True):
            if old is not None:
                if scale["found_inf"] is not None:
                    result = torch.where(scale["found_inf"] > 0, old, result)
                old.copy_(result)

    # torch compiles a piece of code at most eight times: each rule with its flags is a piece of its own.
    piece = types.FunctionType(
        run.__code__.replace(co_name=f"{rule.__name__}_step"),
        run.__globals__,
        closure=run.__closure__,
    )
    # Beyond a break in the graph values would be inputs again: fullgraph refuses such a formula.
    return torch.compile(piece, dynamic=True, fullgraph=True)


def _number(value: Any) -> Any:
    """A number as a tensor, which may change without compiling anew; 0, which rules branch on, as it is."""
    if isinstance(value, tuple):
        return tuple(map(_number, value))
    if isinstance(value, Tensor):
        return value.detach().reshape(())
    return 0.0 if value == 0 else torch.tensor(float(value), dtype=torch.float64, device="cpu")


@functools.lru_cache
def _numbers(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device="cpu")


def _flat(t: Tensor) -> Tensor:
    """A view of all elements in the order of memory."""
    t = local_shard(t).detach()
    return t.view(-1) if t.is_contiguous() else t.as_strided((t.numel(),), (1,))
