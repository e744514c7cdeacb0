"""Devices, processes and precision: what Lightning Fabric does for us, with its defaults made explicit.

Fabric is imported here and nowhere else, in half the time: where torchmetrics is installed, it would import
all of that, to ask for a version that only its spike detection needs.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.lab.engine.config import RunConfig

_HIDDEN = {"torchmetrics"} - sys.modules.keys()  # looks as if it were not installed
sys.modules.update(dict.fromkeys(_HIDDEN))  # type: ignore[arg-type]
try:
    from lightning_fabric import Fabric
    from lightning_fabric.plugins import MixedPrecision
    from lightning_fabric.plugins.environments import TorchElasticEnvironment
    from lightning_fabric.strategies import DDPStrategy, ModelParallelStrategy
finally:
    for _name in _HIDDEN:
        del sys.modules[_name]

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it announces each start


def make_fabric(config: RunConfig) -> Fabric:
    """Fabric for a config, launched; under ``torchrun`` the processes are those that it started."""
    devices, nodes = config.devices, config.nodes
    if TorchElasticEnvironment.detect():
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    elif devices > (most := max(os.cpu_count() or 1, torch.cuda.device_count())):
        # on CPUs a device is a process, and Fabric would start any number of them
        raise GafError(f"devices={devices} is more than this machine has; set at most {most}")
    plugins = _precision(config)
    try:
        fabric = Fabric(
            accelerator=config.accelerator,
            strategy=_strategy(config.strategy, devices * nodes),
            devices=devices,
            num_nodes=nodes,
            plugins=plugins,
        )
    except Exception as error:  # Fabric's own, for devices that are not there
        reason = " ".join(str(error).split())
        raise GafError(
            f"accelerator={config.accelerator}, devices={devices} cannot be had here: {reason}"
        ) from error
    fabric.launch()
    if torch.distributed.is_initialized() and fabric.device.type == "cpu":
        atexit.unregister(_rest)  # once, however many runs the process trains
        atexit.register(_rest)
    return fabric


def _rest() -> None:
    """Let gloo's threads finish: one that lets go of a tensor while Python ends would abort the process."""
    time.sleep(1)


def _strategy(name: str, processes: int) -> Any:
    if processes == 1:
        return "auto"  # nothing to share
    if name == "fsdp2":
        return ModelParallelStrategy(
            parallelize_fn=_shard, data_parallel_size=processes, tensor_parallel_size=1
        )
    return DDPStrategy()


def _shard(model: nn.Module, mesh: Any) -> nn.Module:
    """FSDP2: each block with parameters is gathered when it is needed, the rest with the whole."""
    from torch.distributed.fsdp import fully_shard

    for block in (*_blocks(model), model):
        fully_shard(block, mesh=mesh["data_parallel"])
    return model


def _blocks(model: nn.Module) -> Iterator[nn.Module]:
    """The children that are called; lists and dicts of modules are not, their entries are."""
    for child in model.children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            yield from _blocks(child)
        elif any(True for _ in child.parameters()):
            yield child


def _precision(config: RunConfig) -> list[Any]:
    """Named here because Fabric would turn fp16 on a CPU into bf16."""
    if config.precision == "32-true":
        return []
    if config.precision == "16-mixed" and config.strategy == "fsdp2":
        raise GafError("precision 16-mixed does not go with strategy fsdp2; use bf16-mixed")
    device = config.accelerator
    if device == "auto":
        backends = {"cuda": torch.cuda, "mps": torch.backends.mps}
        there = [name for name, backend in backends.items() if backend.is_available()]
        device = there[0] if there else "cpu"
    scaler = torch.amp.GradScaler(device) if config.precision == "16-mixed" else None
    return [MixedPrecision(config.precision, device, scaler=scaler)]


def highest(fabric: Fabric, mine: int) -> int:
    """The highest number of all processes."""
    if fabric.world_size == 1:
        return mine
    number = torch.tensor(mine, device=fabric.device)
    torch.distributed.all_reduce(number, torch.distributed.ReduceOp.MAX)
    return int(number.item())


def everyones(fabric: Fabric, mine: Any) -> list[Any]:
    """A plain value of each process, on all of them."""
    if fabric.world_size == 1:
        return [mine]
    values = [None] * fabric.world_size
    torch.distributed.all_gather_object(values, mine)
    return values


def gather_rows(fabric: Fabric, rows: dict[str, Tensor], samples: int) -> dict[str, Tensor]:
    """Rows of :func:`sampler.evaluation_indices` from all processes: each sample once, in the set's order."""
    if fabric.world_size == 1:
        return rows
    gathered = dict(rows)  # in the task's order; the processes talk in that of the names
    for name in sorted(rows):
        mine = rows[name].contiguous()
        # gloo has no booleans
        sent = mine.to(torch.uint8) if mine.dtype == torch.bool else mine
        parts = [torch.empty_like(sent) for _ in range(fabric.world_size)]
        torch.distributed.all_gather(parts, sent)
        # process r holds samples r, r + processes, ...
        gathered[name] = torch.stack(parts, dim=1).flatten(0, 1)[:samples].to(mine.dtype)
    return gathered
