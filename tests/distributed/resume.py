"""Run by several processes: a sharded training that is saved, or one that goes on from what another saved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import gaf
from gaf.integrations import checkpoint
from tests.distributed.configs import CONFIGS, Config, F
from tests.distributed.worker import Towers, batch, largest_difference, main

CHOSEN = [
    each
    for each in CONFIGS
    if each.name
    in ("sgd@momentum fused", "sgd@update single", "adamw foreach", "activated rmsprop")
]
SAVED, STEPS = 2, 4


def train(towers: Towers, optimizers: list[Any], steps: range, mine: bool) -> None:
    for step in steps:
        towers.zero_grad()
        towers(*batch(step, mine)).backward()
        if step < SAVED:  # a parameter without optimizer state when it is saved
            for tower in towers.towers:
                tower.get_parameter("2.weight").grad = None
        for optimizer in optimizers:
            optimizer.step()


def make(config: Config, tower: nn.Module) -> Any:
    """Two groups, one of them without f."""
    named = list(tower.named_parameters())
    groups = [
        {"params": [p for name, p in named if not name.endswith("bias")]},
        {"params": [p for name, p in named if name.endswith("bias")], "activation": None},
    ]
    if config.way == "activated":  # torch's constructor keeps what it does not know
        return gaf.activate(config.kind(groups, **config.arguments), F)
    arguments = {**config.arguments, "fused": None}  # torch's fused SGD takes no DTensor
    return config.kind(groups, activation=F, **arguments)


def sharded() -> tuple[Towers, list[Any]]:
    towers = Towers(len(CHOSEN))
    fully_shard(towers, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return towers, optimizers_of(towers)


def optimizers_of(towers: Towers) -> list[Any]:
    return [make(config, tower) for config, tower in zip(CHOSEN, towers.towers, strict=True)]


def alone() -> Towers:
    """The training without a break, by one process."""
    towers = Towers(len(CHOSEN))
    train(towers, optimizers_of(towers), range(STEPS), mine=False)
    return towers


def check() -> Any:
    folder, what = Path(sys.argv[1]), sys.argv[2]
    towers, optimizers = sharded()
    folders = [folder / f"checkpoint-{i}" for i in range(len(CHOSEN))]
    parts = list(zip(folders, towers.towers, optimizers, strict=True))
    if what == "save":
        train(towers, optimizers, range(SAVED), mine=True)
        for each, tower, optimizer in parts:
            checkpoint.save(each, tower, optimizer)
        return len(list(folders[0].glob("*.distcp")))
    for each, tower, optimizer in parts:
        for p in tower.parameters():
            p.data.mul_(0)
        checkpoint.load(each, tower, optimizer)
    train(towers, optimizers, range(SAVED, STEPS), mine=True)
    return largest_difference(towers, alone())


if __name__ == "__main__":
    main(check)
