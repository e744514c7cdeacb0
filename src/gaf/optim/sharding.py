"""What one process cannot know of gradients whose elements lie on several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.functions.lift import is_dtensor


def on_any_process(flag: Tensor, tensors: Iterable[Tensor]) -> Tensor:
    """A flag that is set if it is set on any of the processes that share the tensors.

    It costs an all-reduce of one number for each dimension of their mesh, and nothing for plain tensors.
    All those processes must call it.
    """
    meshes = {t.device_mesh: t.to_local().device for t in tensors if is_dtensor(t)}  # type: ignore[attr-defined]
    for mesh, device in meshes.items():
        flag = flag.to(device, torch.int32)  # the device that the mesh's processes talk with
        for dimension in range(mesh.ndim):
            group = mesh.get_group(dimension)
            torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX, group=group)
    return flag


def over_shards(values: Tensor, tensors: Sequence[Tensor], joined: str) -> Tensor:
    """A number of each tensor, joined over the processes that hold its other shards.

    It costs an all-reduce of these numbers for each dimension of a mesh along which tensors are sharded.
    Replicas hold the same elements and are not counted twice. All those processes must call it.

    Args:
        values: a number of this process's part of each tensor.
        tensors: the tensors.
        joined: ``"SUM"`` or ``"MAX"``.
    """
    rows: dict[tuple[Any, int], list[int]] = {}
    for i, t in enumerate(tensors):
        if is_dtensor(t):
            for dimension, placement in enumerate(t.placements):  # type: ignore[attr-defined]
                if not placement.is_replicate():
                    rows.setdefault((t.device_mesh, dimension), []).append(i)  # type: ignore[attr-defined]
    for (mesh, dimension), indices in rows.items():
        part = values[indices]
        operation = getattr(torch.distributed.ReduceOp, joined)
        torch.distributed.all_reduce(part, operation, group=mesh.get_group(dimension))
        values[indices] = part
    return values
