"""Which tensors one loop over memory can serve: a parameter, its gradient and its state, laid out alike."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gaf.functions.lift import local_shard

# The order is that of the kernels' own enumeration.
TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}

# Other subclasses of Tensor may have no memory of their own.
PLAIN = frozenset((Tensor, torch.nn.Parameter))


def refusal_of_rows(
    kernels: str, device: str, lists: Sequence[Sequence[Tensor | None]]
) -> str | None:
    """Why kernels for one kind of device cannot serve a parameter with its gradient and its state."""
    for row in zip(*lists, strict=True):
        tensors = [local_shard(t) for t in row if t is not None]
        reason = _refusal_of_one(kernels, device, tensors)
        if reason is not None:
            return reason
    return None


def _refusal_of_one(kernels: str, device: str, tensors: Sequence[Tensor]) -> str | None:
    first = tensors[0]
    if first.dtype not in TYPES:
        return f"the {kernels} kernels take {', '.join(map(str, TYPES))}, not {first.dtype}"
    for t in tensors:
        if type(t) not in PLAIN:
            return f"the {kernels} kernels take plain tensors, not {type(t).__name__}"
        if t.device.type != device or t.layout != torch.strided:
            found = f"{t.device.type} {t.layout}"
            return f"the {kernels} kernels take dense {device} tensors, not {found}"
        if t.dtype != first.dtype:
            return f"a gradient or state is {t.dtype} where its parameter is {first.dtype}"
        if t.device != first.device:
            return f"a gradient or state is on {t.device} where its parameter is on {first.device}"
        if t.shape != first.shape:
            found, expected = tuple(t.shape), tuple(first.shape)
            return f"a gradient or state has shape {found} where its parameter has {expected}"
        if not torch.compiler.is_compiling() and (t.is_neg() or t._is_zerotensor()):
            return "a tensor is a lazy negation or zero, which has no memory of its own"
    alike = all(t.is_contiguous() for t in tensors) or all(
        t.stride() == first.stride() and _dense(t) for t in tensors
    )
    if not alike:
        return "a parameter, its gradient and its state are not laid out alike in memory"
    return None


def _dense(t: Tensor) -> bool:
    """Whether the elements fill a block of memory without gaps or overlaps, in any order."""
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
