"""What one process cannot know of gradients whose elements lie on several."""

from __future__ import annotations

from collections.abc import Iterable

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
