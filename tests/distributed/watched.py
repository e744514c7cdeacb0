"""Run by several processes: f and the monitor where layers are split, or a model into stages."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import gaf
from tests.distributed.worker import Traffic, main

F = gaf.Arctan(0.1, 20)
STEPS = 3
EXACT = ("elements", "zeros", "nonfinite", "norm", "max", "update_ratio", "linear", "saturated")


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))


def batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(16, 6, generator=generator), torch.randn(16, 2, generator=generator)


def optimizer_of(model: nn.Module, plain: bool) -> torch.optim.Optimizer:
    own = {} if plain else {"activation": F}
    kind = torch.optim.SGD if plain else gaf.SGD
    groups: dict[bool, list[Tensor]] = {}  # torch's foreach takes one kind of tensor at a time
    for p in model.parameters():
        groups.setdefault(isinstance(p, DTensor), []).append(p)
    return kind([{"params": ps} for ps in groups.values()], lr=0.1, momentum=0.9, **own)


def alone() -> tuple[dict[str, Tensor], dict[str, dict[str, Any]]]:
    """The weights after all steps, and the last record of each tensor, by one process."""
    model = network()
    optimizer = optimizer_of(model, plain=False)
    monitor = gaf.Monitor(optimizer, per="tensor", names=model)
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = batch(step)
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return {name: p.detach() for name, p in model.named_parameters()}, monitor.latest


def tensor_parallel(plain: bool, watched: bool) -> tuple[nn.Module, Any, int]:
    """A column and a row split over the processes; the last layer is whole. Also the bytes of the steps."""
    model = network()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = optimizer_of(model, plain)
    monitor = gaf.Monitor(optimizer, per="tensor", names=model) if watched else None
    sent = 0
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = batch(step)
        nn.functional.mse_loss(model(x), y).backward()
        with Traffic() as traffic:
            optimizer.step()
        sent += sum(traffic.bytes.values())
    return model, monitor, sent


def pipeline(plain: bool, watched: bool) -> tuple[nn.Module, Any, int]:
    """The first layers on process 0, the last on process 1: activations go on, their gradients come back."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    model = network()
    stage = model[:3] if rank == 0 else model[3:]
    optimizer = optimizer_of(stage, plain)
    names = [(n, p) for n, p in model.named_parameters() if any(p is q for q in stage.parameters())]
    monitor = gaf.Monitor(optimizer, per="tensor", names=names) if watched else None
    sent = 0
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = batch(step)
        if rank == 0:
            out = stage(x)
            dist.send(out.detach(), last)
            grad = torch.empty_like(out)
            dist.recv(grad, last)
            out.backward(grad)
        else:
            middle = torch.empty(16, 8)
            dist.recv(middle, 0)
            middle.requires_grad_()
            nn.functional.mse_loss(stage(middle), y).backward()
            assert middle.grad is not None
            dist.send(middle.grad, 0)
        with Traffic() as traffic:
            optimizer.step()
        sent += sum(traffic.bytes.values())
    own = nn.ModuleDict({})
    own.params = dict(names)  # type: ignore[assignment]
    return own, monitor, sent


def check() -> dict[str, Any]:
    weights, records = alone()
    found: dict[str, Any] = {}
    for name, train in (("tensor", tensor_parallel), ("pipeline", pipeline)):
        model, monitor, monitored = train(False, True)
        _, _, ours = train(False, False)
        _, _, torchs = train(True, False)
        params = model.params if name == "pipeline" else dict(model.named_parameters())
        whole = {n: p.full_tensor() if isinstance(p, DTensor) else p for n, p in params.items()}
        found[name] = {
            "weights": max((p - weights[n]).abs().max().item() for n, p in whole.items()),
            "figures": max(
                abs(record[key] - records[n][key]) / max(1e-12, abs(records[n][key]))
                for n, record in monitor.latest.items()
                for key in EXACT
            ),
            "tensors": sorted(monitor.latest),
            "sent": {"torch": torchs, "f": ours, "monitor": monitored},
        }
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, found)
    return {"processes": everyone}


if __name__ == "__main__":
    main(check)
