"""What a monitor knows exactly of gradients, in one pass over memory where the native kernels serve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gaf.functions.lift import real_values
from gaf.kernels import native
from gaf.kernels.layout import TYPES, all_plain, integers

COLUMNS = ("squares", "largest", "nonfinite", "zeros")


def figures(tensors: Sequence[Tensor]) -> Tensor:
    """Of each tensor the sum of squares and the largest of the finite elements, and how many are not, or 0.

    Args:
        tensors: dense, sparse (by their values) or sharded (by the local shard); none may be on another
            device than the first.

    Returns:
        A float64 row for each, in the order of :data:`COLUMNS`, on their device.
    """
    if len({t.dtype for t in tensors}) == 1 and gatherable(tensors, _in_one_block):
        return _by_kernel(tensors)
    return torch.stack([_of_one(t) for t in tensors])


def gatherable(
    tensors: Sequence[Tensor], in_order: Callable[[Tensor], bool] = Tensor.is_contiguous
) -> bool:
    """Whether the native kernels can read these tensors."""
    return (
        hasattr(native._native, "gather")  # else built without a compiler, or earlier
        and all_plain(tensors)
        and {t.layout for t in tensors} == {torch.strided}
        and {t.is_cpu for t in tensors} == {True}
        and {t.dtype for t in tensors}.issubset(TYPES)
        and all(map(in_order, tensors))
        and not any(map(Tensor.is_neg, tensors))
        and not any(map(Tensor._is_zerotensor, tensors))
    )


def gather(tensors: Sequence[Tensor], steps: list[int], total: int) -> Tensor:
    """Evenly spaced elements of each tensor, one tensor after the other, in float64.

    Args:
        tensors: such as :func:`gatherable` takes.
        steps: the distance between those taken, for each.
        total: how many that makes.
    """
    row = torch.empty(total, dtype=torch.float64, device="cpu")
    native._native.gather(
        bytes([TYPES[t.dtype] for t in tensors]),
        integers(map(Tensor.numel, tensors)),
        integers(steps),
        integers(map(Tensor.data_ptr, tensors)),
        row.data_ptr(),
    )
    return row


def _in_one_block(t: Tensor) -> bool:
    """Whether its elements fill their memory, in any order, as in channels last."""
    return t.is_contiguous() or (t.ndim == 4 and t.is_contiguous(memory_format=torch.channels_last))


def _by_kernel(tensors: Sequence[Tensor]) -> Tensor:
    rows = torch.empty(len(tensors), len(COLUMNS), dtype=torch.float64, device="cpu")
    native._native.figures(
        native.instruction_set(),
        TYPES[tensors[0].dtype],
        integers(map(Tensor.numel, tensors)),
        integers(map(Tensor.data_ptr, tensors)),
        rows.data_ptr(),
        torch.get_num_threads(),
    )
    return rows


def _of_one(t: Tensor) -> Tensor:
    """The same by torch's operations; nothing waits for the device."""
    x = real_values(t.detach()).reshape(-1)
    wide = torch.float32 if x.device.type == "mps" else torch.float64
    if not x.numel():
        return torch.zeros(len(COLUMNS), dtype=wide, device=x.device)
    finite = torch.isfinite(x)
    a = torch.where(finite, x, 0).abs()
    columns = (
        torch.linalg.vector_norm(a, dtype=wide).square(),
        torch.linalg.vector_norm(a, math.inf),
        (~finite).sum(),
        (x == 0).sum(),
    )
    return torch.stack([column.to(wide) for column in columns])
