"""A rule over a list of tensors: few launches, one intermediate list.

:class:`TensorList` has the methods of a tensor that the rules of :mod:`gaf.optim.rules` use; each is one
``torch._foreach`` call over the list. So a rule is written once, for one tensor, and the two agree to the
bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.functions.lift import is_dtensor, real_view, writable_view

Number = float | Tensor


class TensorList:
    """Dense real tensors of one device and one dtype, behind the methods of one.

    What an operation returns is a list of our own, ``spare``: the next operation on it writes into the same
    memory. So an intermediate result is used once, and a rule needs one intermediate list. Copies are to be
    kept, and never spare.

    Args:
        tensors: the tensors; those given are written to by methods in place only.
        spare: whether they are free to be overwritten.
    """

    def __init__(self, tensors: Sequence[Tensor], spare: bool = False) -> None:
        self.tensors = list(tensors)
        self.spare = spare

    @property
    def dtype(self) -> torch.dtype:
        return self.tensors[0].dtype

    def to(self, dtype: torch.dtype) -> TensorList:
        return TensorList([t.to(dtype) for t in self.tensors])

    def clone(self) -> TensorList:
        return TensorList([t.clone() for t in self.tensors])

    def copy_(self, other: TensorList) -> TensorList:
        if is_dtensor(self.tensors[0]):  # torch has no _foreach_copy_ of sharded tensors
            for t, new in zip(self.tensors, other.tensors, strict=True):
                t.copy_(new)
        else:
            torch._foreach_copy_(self.tensors, other.tensors)
        return self

    def __neg__(self) -> TensorList:
        return TensorList(torch._foreach_neg(self.tensors))  # of a gradient, which rules use twice

    def mul(self, other: Number | TensorList) -> TensorList:
        if self.spare:
            return self.mul_(other)
        if isinstance(other, float) and torch.compiler.is_compiling():
            return _made([t * other for t in self.tensors])  # _foreach_mul compiles for each number
        return _made(torch._foreach_mul(self.tensors, _operand(other)))

    def mul_(self, other: Number | TensorList) -> TensorList:
        if isinstance(other, float) and torch.compiler.is_compiling():
            for t in self.tensors:
                t.mul_(other)
        else:
            torch._foreach_mul_(self.tensors, _operand(other))
        return self

    def add(self, other: float | TensorList, *, alpha: float = 1) -> TensorList:
        if self.spare:
            return self.add_(other, alpha=alpha)
        return _made(torch._foreach_add(self.tensors, _operand(other), **_by(alpha)))

    def add_(self, other: float | TensorList, *, alpha: float = 1) -> TensorList:
        torch._foreach_add_(self.tensors, _operand(other), **_by(alpha))
        return self

    def sub(self, other: TensorList) -> TensorList:
        return _made(torch._foreach_sub(self.tensors, other.tensors))

    def div(self, other: Number | TensorList) -> TensorList:
        if not self.spare:
            return _made(torch._foreach_div(self.tensors, _operand(other)))
        torch._foreach_div_(self.tensors, _operand(other))
        return self

    def ne(self, other: float) -> TensorList:
        return TensorList([t.ne(other) for t in self.tensors])

    def where(self, condition: TensorList, other: float) -> TensorList:
        pairs = zip(self.tensors, condition.tensors, strict=True)
        return _made([t.where(mask, other) for t, mask in pairs])

    def sqrt(self) -> TensorList:
        return _made(torch._foreach_sqrt(self.tensors))

    def maximum(self, other: TensorList) -> TensorList:
        return _made(torch._foreach_maximum(self.tensors, other.tensors))

    def lerp_(self, end: TensorList, weight: float) -> TensorList:
        torch._foreach_lerp_(self.tensors, end.tensors, weight)
        return self

    def addcmul_(self, a: TensorList, b: TensorList, *, value: float) -> TensorList:
        torch._foreach_addcmul_(self.tensors, a.tensors, b.tensors, value)
        return self

    def addcdiv_(self, a: TensorList, b: TensorList, *, value: float) -> TensorList:
        torch._foreach_addcdiv_(self.tensors, a.tensors, b.tensors, value)
        return self


class FunctionList:
    """f of each tensor of a list; a spare list gives up its tensors one by one."""

    def __init__(self, functions: Sequence[Callable[[Tensor], Tensor]]) -> None:
        self.functions = functions

    def __call__(self, xs: TensorList) -> TensorList:
        ys = xs.tensors if xs.spare else list(xs.tensors)
        for i, f in enumerate(self.functions):
            ys[i] = f(ys[i])
        return TensorList(ys, spare=True)


def step(
    rule: Callable[..., tuple[Any, ...]],
    ws: Sequence[Tensor],
    gs: Sequence[Tensor],
    states: Sequence[Sequence[Tensor | None]],
    fs: Sequence[Callable[[Tensor], Tensor]],
    counts: Sequence[float] | None,
    **hyper: Any,
) -> list[list[Tensor | None]]:
    """One step of a rule of :mod:`gaf.optim.rules` on all tensors; returns the states to carry on.

    Tensors of one device and dtype whose states exist alike are served at once.

    Args:
        rule: the rule.
        ws: the weights, which are written to.
        gs: their gradients.
        states: lists of their states, None for one that does not exist.
        fs: each tensor's f.
        counts: the number of the step of each tensor, for a rule that counts.
        **hyper: the rule's numbers.
    """
    batches: dict[Any, list[int]] = {}
    for i, w in enumerate(ws):
        there = tuple(column[i] is None for column in states)
        count = None if counts is None else counts[i]
        batches.setdefault((w.device, w.dtype, there, count), []).append(i)
    new: list[list[Tensor | None]] = [list(column) for column in states]
    for (_, dtype, absent, count), indices in batches.items():
        numbers = hyper if counts is None else {**hyper, "step": count}
        carried = rule(
            _reals(ws, indices),
            TensorList([real_view(gs[i]) for i in indices]),
            *(
                None if none else _reals(column, indices)
                for column, none in zip(states, absent, strict=True)
            ),
            FunctionList([fs[i] for i in indices]),
            **numbers,
        )
        for column, none, tensors in zip(new, absent, carried, strict=True):
            if none and tensors is not None:
                for i, t in zip(indices, tensors.tensors, strict=True):
                    column[i] = torch.view_as_complex(t) if dtype.is_complex else t
    return new


def _reals(tensors: Sequence[Tensor | None], indices: Sequence[int]) -> TensorList:
    return TensorList([writable_view(tensors[i]) for i in indices])  # type: ignore[arg-type]


def _made(tensors: Sequence[Tensor]) -> TensorList:
    return TensorList(tensors, spare=True)


def _operand(value: Number | TensorList) -> Number | list[Tensor]:
    return value.tensors if isinstance(value, TensorList) else value


def _by(alpha: float) -> dict[str, float]:
    return {} if alpha == 1 else {"alpha": alpha}
