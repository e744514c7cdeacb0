"""Run by several processes: gaf.Auto on sharded tensors, against what docs/auto.md says it computes there."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import gaf
from gaf.optim.adapt import KEY
from tests.distributed.worker import Traffic, main, whole

SIZES = (12, 5, 1)  # of the last, all processes but one hold nothing
STEPS = 3


def check() -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return {
        **{f"shards {name}": sharded(mesh, make) for name, make in RULES.items()},
        "partial": partial(mesh),
    }


RULES = {
    **{
        f"sgd@{place}": lambda ps, place=place: gaf.SGD(
            ps, lr=0.1, momentum=0.9, activation=gaf.Auto(), placement=place
        )
        for place in gaf.PLACEMENTS
    },
    **{
        f"sgd {name}": lambda ps, name=name: gaf.SGD(ps, lr=0.1, activation=gaf.Auto(function=name))
        for name in ("line", "clip", "sign")
    },
    "quantile clip": lambda ps: gaf.SGD(ps, lr=0.1, activation=gaf.QuantileClip(0.5)),
    "adam": lambda ps: gaf.Adam(ps, lr=0.1, activation=gaf.Auto(), placement="gradient"),
    "adam's ratio": lambda ps: gaf.Adam(ps, lr=0.1, activation=gaf.Auto()),
    "activated": lambda ps: gaf.activate(torch.optim.RMSprop(ps, lr=0.1), gaf.Auto()),
}


def gradients(step: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(step)
    return [10.0**-i * torch.randn(n, 3, generator=generator) for i, n in enumerate(SIZES)]


def sharded(mesh: Any, make: Any) -> dict[str, Any]:
    """How far states are apart, and from the mean of the shards' own logarithms; what was sent."""
    weights = gradients(100)
    ps = [nn.Parameter(distribute_tensor(w, mesh, [Shard(0)])) for w in weights]
    optimizer = make(ps)
    sent = []
    for step in range(STEPS):
        for p, g in zip(ps, gradients(step), strict=True):
            p.grad = distribute_tensor(g, mesh, [Shard(0)])
        with Traffic() as traffic:
            optimizer.step()
        sent.append(dict(traffic.bytes))
    states = torch.stack([optimizer.state[p][KEY] for p in ps])
    everyone = [torch.empty_like(states) for _ in range(mesh.size())]
    dist.all_gather(everyone, states)
    return {
        "apart": max((each - states).abs().max().item() for each in everyone),
        "sizes": max(
            abs(state[2].item() - w.square().mean().sqrt().item())
            for state, w in zip(states, weights, strict=True)
        ),
        "wrong": max(
            abs((state[1] / state[0]).item() - expected(i, mesh.size()))
            for i, state in enumerate(states)
        ),
        "finite": all(bool(torch.isfinite(whole(p)).all()) for p in ps),
        "sent": sent,
    }


def expected(number: int, processes: int) -> float:
    """m's logarithm on gradients: over steps, the mean over the shards of their own medians' logarithms."""
    decay, total, weight = gaf.Auto().decay, 0.0, 0.0
    for step in range(STEPS):
        shards = [shard for shard in gradients(step)[number].chunk(processes) if shard.numel()]
        logs = [math.log(sorted(s.abs().flatten().tolist())[(s.numel() - 1) // 2]) for s in shards]
        total = decay * total + (1 - decay) * sum(logs) / len(logs)
        weight = decay * weight + (1 - decay)
    return total / weight


def partial(mesh: Any) -> dict[str, str]:
    """What each says to a sum still to be made; nothing is sent, and nothing kept."""
    said = {}
    for name, make in RULES.items():
        p = nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Replicate()]))
        p.grad = DTensor.from_local(torch.ones(4), mesh, [Partial()])
        optimizer = make([p])
        with Traffic() as traffic:
            try:
                optimizer.step()
            except ValueError as error:
                said[name] = str(error)
        assert not traffic.bytes, name
        assert torch.equal(p.to_local(), torch.ones(4)), name
        assert KEY not in optimizer.state[p], name
    return said


if __name__ == "__main__":
    main(check)
