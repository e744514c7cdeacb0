"""What one process cannot know of gradients whose elements lie on several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.functions.lift import is_dtensor
from gaf.optim.monitor import SHARES


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


def together(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A monitor's figures of one group whose elements lie on several processes, from each one's record.

    Quantiles are left out: they do not follow from those of the parts.

    Example:
        >>> half = dict(group=0, max=1.0, elements=10, zeros=0, nonfinite=0, linear=1.0, enlarged=1.0)
        >>> half |= dict(restrained=0.0, saturated=0.0, histogram={"-3": 1.0})
        >>> together((half, {**half, "max": 2.0, "zeros": 10, "linear": 0.0}))["linear"]
        1.0
    """
    alive = [each["elements"] - each["zeros"] - each["nonfinite"] for each in records]
    total = max(1, sum(alive))

    def weighted(parts: Iterable[float]) -> float:
        return sum(n * part for n, part in zip(alive, parts, strict=True)) / total

    figures = {
        "group": records[0]["group"],
        "max": max(each["max"] for each in records),
        "nonfinite": sum(each["nonfinite"] for each in records),
        **{name: weighted(each[name] for each in records) for name in SHARES},
    }
    if "histogram" in records[0]:
        edges = sorted({edge for each in records for edge in each["histogram"]}, key=float)
        shares = {e: weighted(each["histogram"].get(e, 0.0) for each in records) for e in edges}
        figures["histogram"] = {edge: float(f"{share:.4g}") for edge, share in shares.items()}
    return figures
