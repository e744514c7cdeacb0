"""Data parallel training: two processes, one line changed, the weights of one process.

Start it as it is and it starts its own two processes; so does
`torchrun --nproc-per-node 2 examples/ddp.py`.
"""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gaf

if "RANK" not in os.environ:
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    sys.exit(subprocess.run([*torchrun, __file__]).returncode)


def train(model: nn.Module, points: torch.Tensor, labels: torch.Tensor) -> float:
    # The gradients are averaged over the processes before f acts, once a step.
    opt = gaf.create_optimizer(
        "sgd+arctan(0.1, 20)@momentum", model.parameters(), lr=0.05, momentum=0.9
    )
    for _ in range(20):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        opt.step()
    return loss.item()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))


torch.set_num_threads(1)
dist.init_process_group("gloo")  # "nccl" on GPUs
rank, world = dist.get_rank(), dist.get_world_size()

points = torch.randn(256, 8, generator=torch.Generator().manual_seed(1))
labels = (points[:, 0] * points[:, 1] > 0).long()

model = network()
train(DistributedDataParallel(model), points.chunk(world)[rank], labels.chunk(world)[rank])

alone = network()
train(alone, points, labels)
pairs = zip(model.parameters(), alone.parameters(), strict=True)
difference = max((p - q).abs().max().item() for p, q in pairs)
if rank == 0:
    print(f"{world} processes against one: weights differ by at most {difference:.0e}")
assert difference < 1e-5
dist.destroy_process_group()
