"""What the processes of a check share: meeting, counting bytes, and a task that is split over them."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

SAMPLES = 12  # divisible by 2 and 3, so that the mean of the processes' means is the mean of all


def main(check: Callable[[], Any]) -> None:
    """Meet the other processes, run the check, leave what it returns for the test."""
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "gloo", init_method=os.environ["GAF_MEETING"], rank=rank, world_size=world
    )
    found = check()
    dist.barrier()
    if rank == 0:
        Path(os.environ["GAF_RESULT"]).write_text(json.dumps(found), "utf-8")
    dist.destroy_process_group()
    time.sleep(
        1
    )  # sharded tensors keep gloo's threads: one that frees a tensor while Python ends would abort


class Traffic(TorchDispatchMode):
    """Counts the bytes of every tensor handed to a collective, by the collective's name.

    Collectives are operators of torch's dispatcher, those that DDP's reducer calls from C++ included.
    """

    NAMESPACES = ("c10d", "_c10d_functional")
    NO_TRAFFIC = ("wait_tensor", "_wrap_tensor_autograd")

    def __init__(self) -> None:
        super().__init__()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:  # let it unfold first: its collectives come here one by one
            return NotImplemented
        if func.namespace in self.NAMESPACES and func.name().split("::")[1] not in self.NO_TRAFFIC:
            self.bytes[func.name()] += sum(t.nbytes for t in _tensors(args))
        return func(*args, **(kwargs or {}))


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, list | tuple):
        return [t for each in tree for t in _tensors(each)]
    return []


class Towers(nn.Module):
    """Many small networks side by side, one for each optimizer: they share nothing but the inputs.

    One pass over all is one round of communication, which makes a check of thirty optimizers quick. The
    last layer has one row, so that all processes but one hold an empty shard of it.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.towers = nn.ModuleList(
            nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 1))
            for _ in range(number)
        )
        with torch.no_grad():
            for i, tower in enumerate(self.towers):
                for p, q in zip(tower.parameters(), self.towers[0].parameters(), strict=True):
                    p.copy_(q if i else torch.randn(p.shape, generator=generator) / 2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the towers' losses: the gradient of each is that of its own."""
        return torch.stack([((tower(x) - y) ** 2).mean() for tower in self.towers]).sum()


def batch(step: int, mine: bool) -> tuple[Tensor, Tensor]:
    """The samples of a step: all of them, or those of this process."""
    generator = torch.Generator().manual_seed(100 + step)
    x = torch.randn(SAMPLES, 5, generator=generator)
    y = torch.randn(SAMPLES, 1, generator=generator)
    if mine:
        rank, world = dist.get_rank(), dist.get_world_size()
        x, y = x.chunk(world)[rank], y.chunk(world)[rank]
    return x, y


def whole(p: Tensor) -> Tensor:
    """A parameter with all its elements."""
    p = p.detach()
    return p.full_tensor() if hasattr(p, "full_tensor") else p  # type: ignore[attr-defined]


def largest_difference(module: nn.Module, reference: nn.Module) -> float:
    pairs = zip(module.parameters(), reference.parameters(), strict=True)
    return max((whole(p) - q.detach()).abs().max().item() for p, q in pairs)
