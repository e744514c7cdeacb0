"""Run by several processes: gaf.Scaled on sharded tensors, against one process with the whole tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import gaf
from gaf.optim.sizes import SIZES
from tests.distributed.worker import Traffic, main, whole

ROWS = (12, 5, 1)  # of the last, all processes but one hold nothing
STEPS = 3


def check() -> dict[str, Any]:
    processes = dist.get_world_size()
    sharded = init_device_mesh("cpu", (processes,)), [Shard(0)]
    replicated = init_device_mesh("cpu", (processes, 1)), [Replicate(), Shard(0)]
    return {
        **{f"{name}, sharded": apart(make, *sharded) for name, make in RULES.items()},
        **{f"{name}, replicas": apart(make, *replicated) for name, make in RULES.items()},
    }


RULES = {
    **{
        f"sgd {by}@{place}": lambda ps, by=by, place=place: gaf.SGD(
            ps, lr=0.1, momentum=0.9, activation=gaf.Scaled(by=by), placement=place
        )
        for by in SIZES
        for place in gaf.PLACEMENTS
    },
    "running": lambda ps: gaf.SGD(ps, lr=0.1, activation=gaf.Scaled(decay=0.5, keep=1)),
    "line": lambda ps: gaf.SGD(ps, lr=0.1, activation=gaf.Scaled(function="line")),
    "adam's ratio": lambda ps: gaf.Adam(
        ps, lr=0.1, activation=gaf.Scaled(), placement="momentum", foreach=True
    ),
    "activated": lambda ps: gaf.activate(torch.optim.RMSprop(ps, lr=0.1), gaf.Scaled()),
    "activated@update": lambda ps: gaf.activate(
        torch.optim.RMSprop(ps, lr=0.1), gaf.Scaled(), placement="update"
    ),
}


def numbers(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [10.0**-i * torch.randn(n, 3, generator=generator) for i, n in enumerate(ROWS)]


def apart(make: Any, mesh: Any, placements: list[Any]) -> dict[str, Any]:
    """How far the weights are from those of whole tensors, and what was sent in a later step."""

    def trained(laid_out: Any) -> tuple[list[Tensor], dict[str, int]]:
        ps = [nn.Parameter(laid_out(w)) for w in numbers(100)]
        optimizer = make(ps)
        for step in range(STEPS):
            for p, g in zip(ps, numbers(step), strict=True):
                p.grad = laid_out(g)
            with Traffic() as traffic:
                optimizer.step()
        return [p.detach() for p in ps], dict(traffic.bytes)

    ours, sent = trained(lambda t: distribute_tensor(t, mesh, placements))
    expected, _ = trained(lambda t: t)
    gaps = [(whole(a) - b).abs().max().item() for a, b in zip(ours, expected, strict=True)]
    return {"apart": max(gaps), "sent": sent}


if __name__ == "__main__":
    main(check)
