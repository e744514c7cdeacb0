"""Sharded training (FSDP2) and its checkpoint: f acts on each process's shard and sends nothing.

Start it as it is and it starts its own two processes. The checkpoint of two is then read by one.
"""

import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import gaf
from gaf.integrations import checkpoint


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 33), nn.Tanh(), nn.Linear(33, 2))


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return gaf.AdamW(model.parameters(), lr=1e-2, activation=gaf.Arctan(0.1, 20))


torch.set_num_threads(1)
if "RANK" not in os.environ:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        subprocess.run([*command, "--nproc-per-node", "2", __file__, folder], check=True)
        model = network()
        opt = optimizer(model)
        checkpoint.load(os.path.join(folder, "step-20"), model, opt)
        print("one process has read it:", gaf.activation_of(opt.param_groups[0]))
    sys.exit()

dist.init_process_group("gloo")  # "nccl" on GPUs
rank, world = dist.get_rank(), dist.get_world_size()
points = torch.randn(256, 8, generator=torch.Generator().manual_seed(1 + rank))
labels = (points[:, 0] * points[:, 1] > 0).long()

model = network()
mesh = dist.init_device_mesh("cpu", (world,))
for part in (model[0], model[2], model):
    fully_shard(part, mesh=mesh)
opt = optimizer(model)  # after sharding: it must hold the shards
for step in range(20):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(points), labels)
    loss.backward()
    opt.step()
    if rank == 0 and step % 10 == 0:
        print(f"step {step:2d}  loss of process 0 {loss:.4f}")
held = [tuple(p.to_local().shape) for p in model.parameters()]
print(f"process {rank} holds {held}")

checkpoint.save(os.path.join(sys.argv[1], "step-20"), model, opt)
dist.destroy_process_group()
# gloo's threads live on: one that lets go of a tensor while Python ends would abort the process
time.sleep(1)
