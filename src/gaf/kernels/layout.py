"""Which tensors one loop over memory can serve: a parameter, its gradient and its state, laid out alike."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gaf.functions.lift import local_shard

# The order is that of the kernels' own enumeration.
TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}

# Other subclasses of Tensor may have no memory of their own. A tuple, since torch 2.8 does not
# trace a membership in a frozenset.
PLAIN = (Tensor, torch.nn.Parameter)

Column = Sequence[Tensor | None]  # one of parallel lists: parameters, gradients, a state
Lists = Sequence[Column]

TANGLED = "a gradient or a state shares memory with its parameter"


class Batch(NamedTuple):
    """Tensors of one type in parallel lists, as the loops in C take them.

    Whole numbers are kept as bytes, of 64 bits each.
    """

    kind: int  # of the elements, a value of TYPES
    sizes: bytes  # elements of each tensor
    addresses: list[bytes | None]  # of the tensors of each list; None for a list without tensors
    members: Sequence[int] | None = None  # which entries of the lists they are; None for all


def all_plain(tensors: Iterable[Tensor | None]) -> bool:
    """Whether all are torch's own tensors, none of a subclass; a compiled step follows it."""
    return all(type(t) in PLAIN for t in tensors)


def integers(values: Iterable[int]) -> bytes:
    """Whole numbers as C reads them."""
    return array("q", values).tobytes()


def look(lists: Lists) -> list[Batch] | str:
    """Where the tensors of parallel lists lie, by their types, or why the native kernels cannot serve them.

    Tensors of different parameters may share memory: they are served one after the other.
    """
    reason = refusal_of_rows("native", "cpu", lists)
    if reason is not None:
        return reason
    columns = [[None if t is None else local_shard(t) for t in column] for column in lists]
    kinds = [TYPES[t.dtype] for t in columns[0]]  # type: ignore[union-attr]
    batches = []
    for kind in dict.fromkeys(kinds):
        members = [i for i, other in enumerate(kinds) if other == kind]
        rows = [[column[i] for i in members] for column in columns]
        if any(map(_is_tangled, zip(*rows, strict=True))):
            return TANGLED
        addresses = [
            integers(0 if t is None else t.data_ptr() for t in row)
            if any(t is not None for t in row)
            else None
            for row in rows
        ]
        sizes = integers(t.numel() for t in rows[0])  # type: ignore[union-attr]
        batches.append(
            Batch(kind, sizes, addresses, None if len(members) == len(kinds) else members)
        )
    return batches


def _is_tangled(row: Column) -> bool:
    """Whether two of one parameter's tensors share memory: a loop would read what it has just written."""
    begins = [t.data_ptr() for t in row if t is not None and t.numel()]
    length = max((t.numel() * t.itemsize for t in row if t is not None), default=0)
    return any(abs(a - b) < length for a, b in itertools.combinations(begins, 2))


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
