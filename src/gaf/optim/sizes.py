"""The size of what f sees in a whole tensor, over all processes that hold a part of it.

Where f acts on the gradient its elements are read once. Behind the momentum the reference rule is run on
copies of one tensor after the other, with f watched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gaf.functions.lift import local_shard, real_values
from gaf.kernels import native
from gaf.optim.sharding import over_shards


@dataclass(frozen=True)
class Size:
    """A number of a tensor, from numbers of its parts.

    Args:
        part: of the elements that a process holds, in a wide dtype.
        joined: ``"SUM"`` or ``"MAX"``, how the parts become one.
        whole: of the joined parts.
    """

    part: Callable[[Tensor, torch.dtype], Tensor]
    joined: str
    whole: Callable[[Tensor], Tensor]


def _squares(x: Tensor, wide: torch.dtype) -> Tensor:
    if not torch.compiler.is_compiling() and native.refusal("arctan", [x]) is None:
        # several times as fast; a sum of float32 loses squares below 1e-38
        found = native.squares([x])
        if 1e-25 * x.numel() < found < torch.inf:
            return torch.tensor(found, dtype=wide)
    return torch.linalg.vector_norm(x, dtype=wide) ** 2


def _largest(x: Tensor, wide: torch.dtype) -> Tensor:
    if not x.numel():
        return x.new_zeros((), dtype=wide)
    low, high = torch.aminmax(x)
    return torch.maximum(-low, high).to(wide)


def _top(x: Tensor, wide: torch.dtype) -> Tensor:
    return x.amax().to(wide) if x.numel() else x.new_full((), -torch.inf, dtype=wide)


SIZES: dict[str, Size] = {
    "norm": Size(_squares, "SUM", Tensor.sqrt),
    "max": Size(_largest, "MAX", Tensor.abs),
    # as the authors' SGD_atanMom_Ada takes it: of the elements and not of their magnitudes
    "top": Size(_top, "MAX", Tensor.abs),
}


def sizes(
    name: str,
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    columns: Sequence[Sequence[Tensor | None]],
    wide: torch.dtype,
    *,
    reference: Callable[..., Any] | None,
    hyper: Mapping[str, Any] | None,
    counts: Sequence[Any] | None,
    scale: Tensor | None,
    negated: bool,
) -> Tensor:
    """The size of each tensor, 0 where it is not a finite number.

    Args:
        name: of the size.
        params: the tensors.
        grads: their gradients.
        columns: lists of the rule's states, None for one that does not exist yet.
        wide: the dtype of the sizes.
        reference: the rule; unused where f acts on ``grads``.
        hyper: the rule's numbers, and the placement; None where f acts on ``grads``.
        counts: the number of each tensor's step, for a rule that takes it.
        scale: GradScaler's, where the gradients still carry it.
        negated: whether f acts on the negative of ``grads``.
    """
    size = SIZES[name]
    home = local_shard(params[0]).device
    rows = []
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        if hyper is None:
            x = real_values(g.detach())
            x = -x if negated else x
        else:
            assert reference is not None
            numbers = hyper if counts is None else {**hyper, "step": counts[i]}
            x = _seen(reference, p, _unscaled(g, scale), [c[i] for c in columns], numbers)
        part = size.part(x, wide)
        if g.is_sparse and x.numel() < g.numel():  # zeros that are not stored are elements too
            part = part.clamp(min=0)
        rows.append(part.to(home))
    found = torch.stack(rows)
    if scale is not None and hyper is None:
        root = 2 if size is SIZES["norm"] else 1  # squares carry it twice
        found = found / scale.to(found).reshape(()) ** root
    # an inf outlives any maximum, where a NaN might not
    found = over_shards(found.nan_to_num(torch.inf, torch.inf, -torch.inf), grads, size.joined)
    found = size.whole(found)
    return torch.where(torch.isfinite(found), found, 0.0)


def _seen(
    reference: Callable[..., Any],
    p: Tensor,
    g: Tensor,
    states: Sequence[Tensor | None],
    numbers: Mapping[str, Any],
) -> Tensor:
    """What f sees of one tensor, by a step of copies of it."""
    seen: list[Tensor] = []

    def tap(x: Tensor) -> Tensor:
        seen.append(x)  # nothing writes into it: what follows goes to the copy of the weights
        return x

    copies = [None if t is None else local_shard(t).detach().clone() for t in (p, *states)]
    reference(copies[0], local_shard(g).detach(), *copies[1:], tap, **numbers)
    return seen.pop()


def _unscaled(g: Tensor, scale: Tensor | None) -> Tensor:
    if scale is None:
        return g
    g = local_shard(g)
    return g.to(torch.promote_types(g.dtype, torch.float32)) / scale.to(g.device).reshape(())
