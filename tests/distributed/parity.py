"""Run by several processes: every config under every kind of parallelism, against one process alone."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.configs import CONFIGS, groups_of
from tests.distributed.edges import edges
from tests.distributed.worker import Towers, Traffic, batch, largest_difference, main

STEPS = 3


def parallel(kind: str) -> tuple[Towers, nn.Module]:
    """The networks, and what is called to train them."""
    towers = Towers(len(CONFIGS))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if kind == "fsdp2":
        fully_shard(towers, mesh=mesh)
    elif kind == "tensor":  # the last layer of each tower stays whole, a plain tensor
        for tower in towers.towers:
            parallelize_module(tower, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    else:
        view = kind == "zero1"  # gradients that are views of DDP's buckets, or not
        return towers, DistributedDataParallel(towers, gradient_as_bucket_view=view)
    return towers, towers


def train(
    towers: Towers, called: nn.Module, kind: str, *, plain: bool = False, clip: float | None = None
) -> None:
    """Each step accumulates over two halves of the batch, which is this process's part or (tensor) all."""
    split = kind in ("ddp", "fsdp2", "zero1")
    optimizers = [
        config.make(groups_of(tower), zero=kind == "zero1", plain=plain)
        for config, tower in zip(CONFIGS, towers.towers, strict=True)
    ]
    for step in range(STEPS):
        called.zero_grad()
        x, y = batch(step, mine=split)
        halves = list(zip(x.chunk(2), y.chunk(2), strict=True))
        for i, (xs, ys) in enumerate(halves):
            with _without_sync(called) if i == 0 else _with_sync(called):
                (called(xs, ys) / 2).backward()
        for config, tower, optimizer in zip(CONFIGS, towers.towers, optimizers, strict=True):
            params = [
                p for p in tower.parameters() if kind != "tensor" or hasattr(p, "device_mesh")
            ]
            if clip is not None:
                nn.utils.clip_grad_norm_(params, clip)
            if not plain:
                config.before_step(tower.parameters())
            optimizer.step()


def _without_sync(module: nn.Module) -> contextlib.AbstractContextManager[Any]:
    if isinstance(module, DistributedDataParallel):
        return module.no_sync()
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(False)
    return contextlib.nullcontext()


def _with_sync(module: nn.Module) -> contextlib.AbstractContextManager[Any]:
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(True)
    return contextlib.nullcontext()


def empty_shards(towers: Towers) -> int:
    """How many parameters some process holds nothing of."""
    mine = [p.to_local().numel() == 0 for p in towers.parameters() if hasattr(p, "to_local")]
    found = torch.tensor(mine or [False], dtype=torch.int32)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return int(found.sum())


def bytes_of(kind: str, **options: Any) -> tuple[dict[str, int], Towers]:
    """What the processes send each other in a training, construction apart."""
    towers, called = parallel(kind)
    with Traffic() as traffic:
        train(towers, called, kind, **options)
    return dict(traffic.bytes), towers


def check() -> dict[str, Any]:
    alone = Towers(len(CONFIGS))
    train(alone, alone, "alone")
    found = {}
    for kind in sys.argv[2].split(","):
        sent, towers = bytes_of(kind)
        found[kind] = {
            "errors": {
                config.name: largest_difference(tower, reference)
                for config, tower, reference in zip(
                    CONFIGS, towers.towers, alone.towers, strict=True
                )
            },
            "moved": largest_difference(alone, Towers(len(CONFIGS))),
            "empty": empty_shards(towers),
            "parameters": sum(p.numel() for p in alone.parameters()),
            "sent": sent,
            "sent by torch": bytes_of(kind, plain=True)[0],
            "sent with clipping": bytes_of(kind, plain=True, clip=0.1)[0],
        }
    if "edges" in sys.argv:
        found["edges"] = edges()
    return found


if __name__ == "__main__":
    main(check)
