"""What is special about sharded gradients: sums still to be made, an inf elsewhere, figures of all shards."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import gaf
from tests.distributed.configs import CONFIGS, F
from tests.distributed.worker import Traffic


def edges() -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return {"partial": partial(mesh), "nonfinite": nonfinite(mesh), "monitor": monitored(mesh)}


def partial(mesh: Any) -> dict[str, str]:
    """What each config says to a gradient that is a sum still to be made; nothing may have changed."""
    said = {}
    for config in CONFIGS:
        ps = [nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Replicate()])) for _ in range(2)]
        sound = DTensor.from_local(torch.ones(4), mesh, [Replicate()])
        ps[0].grad, ps[1].grad = sound, DTensor.from_local(torch.ones(4), mesh, [Partial()])
        optimizer = config.make(ps)
        with Traffic() as traffic:
            try:
                config.before_step(ps)
                optimizer.step()
            except ValueError as error:
                said[config.name] = str(error)
        assert not traffic.bytes, config.name
        assert all(torch.equal(p.to_local(), torch.ones(4)) for p in ps), config.name
        assert torch.equal(sound.to_local(), torch.ones(4)), config.name
    return said


def nonfinite(mesh: Any) -> dict[str, Any]:
    """An inf in one process's shard stops all of them; the question costs one number."""
    p = nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Shard(0)]))
    g = torch.ones(4)
    g[0] = torch.inf  # held by process 0
    p.grad = distribute_tensor(g, mesh, [Shard(0)])
    with Traffic() as traffic:
        try:
            gaf.activate_grad_([p], F, error_if_nonfinite=True)
            said = "nothing"
        except RuntimeError as error:
            said = str(error)
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, said)
    assert torch.equal(p.grad.full_tensor(), g)  # nothing was activated
    return {"said": everyone, "sent": dict(traffic.bytes)}


def monitored(mesh: Any) -> dict[str, float]:
    """The figures of all shards together are those of the whole."""
    generator = torch.Generator().manual_seed(0)
    g = 0.2 * torch.randn(7, 3, generator=generator)
    g[0] = 0

    def record(grad: Tensor) -> dict[str, Any]:
        monitor = gaf.Monitor(quantiles=(), histogram=True)
        p = nn.Parameter(torch.zeros_like(grad))
        p.grad = grad.clone()
        gaf.activate_grad_([p], F, monitor=monitor)
        return monitor.records[0]

    found, expected = record(distribute_tensor(g, mesh, [Shard(0)])), record(g)
    names = ("elements", "zeros", "nonfinite", "norm", "max", "linear", "enlarged", "restrained")
    return {name: abs(found[name] - expected[name]) for name in (*names, "saturated")}
