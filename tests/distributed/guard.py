"""Run by several processes: a guard's one decision, and optimizers inside backward on sharded parameters."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import gaf
import gaf.optim.guard
from tests.distributed.worker import Traffic, main, whole

STEPS = 40
OPTIMIZERS = {
    "torch adamw": lambda ps: torch.optim.AdamW(ps, lr=0.01),
    "torch adamw fused": lambda ps: torch.optim.AdamW(ps, lr=0.01, fused=True),
    "sgd": lambda ps: gaf.SGD(ps, lr=0.01, momentum=0.9, activation="arctan(0.1, 20)"),
    "auto": lambda ps: gaf.SGD(ps, lr=0.01, momentum=0.9, activation=gaf.Auto()),
    "activated": lambda ps: gaf.activate(torch.optim.RMSprop(ps, lr=0.01), gaf.Tanh(0.1, 20)),
}


def check() -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    found: dict[str, Any] = {"plain": guarded(None)}
    gaf.optim.guard._is_asynchronous = lambda device: True  # fused steps as on a GPU
    found |= {"plain, by found_inf": guarded(None), "shards": guarded(mesh)}
    return {**found, "fsdp2": fsdp(mesh), "ddp": said_to_ddp()}


def guarded(mesh: Any) -> dict[str, Any]:
    """Each bad step is bad on one process alone; who kept out what, and what it cost."""
    p = nn.Parameter(torch.ones(7))
    if mesh is not None:
        p = nn.Parameter(distribute_tensor(torch.ones(7), mesh, [Shard(0)]))
    optimizer = torch.optim.AdamW([p], lr=0.01, fused=True)
    guard = gaf.Guard(optimizer)
    generator = random.Random(0)  # the same on all processes
    decisions, bad_steps = [], []
    traffic = Traffic()
    for step in range(STEPS):
        kind = generator.choice(("good", "good", "nan", "inf", "spike")) if step else "good"
        victim = generator.randrange(dist.get_world_size())
        p.grad = torch.ones_like(p)
        if kind != "good" and victim == dist.get_rank():
            local = p.grad if mesh is None else p.grad.to_local()
            local[-1] = {"nan": math.nan, "inf": -math.inf, "spike": 1e4}[kind]
        before = guard.counts
        with traffic:
            optimizer.step()
        after = guard.counts
        decisions.append(any(after[key] > before[key] for key in ("nonfinite", "spikes")))
        bad_steps.append(kind != "good")
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (decisions, guard.state_dict()))
    return {
        "alike": all(each == everyone[0] for each in everyone),
        "right": decisions == bad_steps,
        "bad": sum(bad_steps),
        "sent": dict(traffic.bytes),
        "taken": int(optimizer.state[p]["step"].item()),
    }


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))


def fsdp(mesh: Any) -> dict[str, Any]:
    """Ordinary training under fully_shard against the same inside backward."""
    found = {}
    for name, make in OPTIMIZERS.items():
        weights, most = [], []
        for inside in (False, True):
            model = network()
            for layer in model:
                if isinstance(layer, nn.Linear):
                    fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
            optimizer = make(list(model.parameters()))
            if inside:
                gaf.in_backward(optimizer)
            left = 0
            for step in range(5):
                optimizer.zero_grad()
                x = torch.full((3, 6), 1.0 + step + dist.get_rank())
                model(x).square().sum().backward()
                left = max(left, sum(p.grad is not None for p in model.parameters()))
                optimizer.step()
            weights.append([whole(p) for p in model.parameters()])
            most.append(left)
        pairs = zip(*weights, strict=True)
        found[name] = {
            "same": all(torch.equal(a, b) for a, b in pairs),
            "gradients after backward": most,
        }
    return found


def said_to_ddp() -> list[str]:
    """What the optimizer of a DDP model is told; it is no matter which of the two is made first."""
    said = []
    for model in (DistributedDataParallel(network()), network()):
        try:
            gaf.in_backward(torch.optim.SGD(model.parameters(), lr=0.1))
        except gaf.GafError as error:
            said.append(str(error))
    return said


if __name__ == "__main__":
    main(check)
