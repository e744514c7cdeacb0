"""A plain loop that `gaf compare` can run: a few lines with `trial`, and the script still runs by itself.

python examples/trial_loop.py --epochs 5
gaf compare examples/trial_loop.py -- --epochs 5
gaf compare examples/trial_loop.py --launch "torchrun --nproc-per-node 2" -- --epochs 5
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import gaf

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
epochs = parser.parse_args().epochs

trial = gaf.trial(score="accuracy", chance=0.15)
torch.manual_seed(trial.seed)


def pictures(count: int, seed: int) -> TensorDataset:
    """Ten kinds of 8 x 8 pictures, shifted and noisy; the same for every seed of a training."""
    kinds = torch.randn(10, 8, 8, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    shifts = torch.randint(8, (count,), generator=generator)
    shifted = [kinds[k].roll(int(s), 1) for k, s in zip(labels, shifts, strict=True)]
    noise = torch.randn(count, 8, 8, generator=generator)
    return TensorDataset(torch.stack(shifted) + 1.5 * noise, labels)


several = "RANK" in os.environ
if several:
    dist.init_process_group("gloo")
train_set, validation_set, test_set = pictures(2000, 1), pictures(500, 2), pictures(500, 3)
sampler = DistributedSampler(train_set, seed=trial.seed) if several else None
train_data = DataLoader(train_set, 64, shuffle=sampler is None, sampler=sampler)

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
network = DistributedDataParallel(model) if several else model
opt = trial.optimizer("sgd", model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)


@torch.no_grad()
def accuracy(data: TensorDataset) -> float:
    points, labels = data.tensors
    return (model(points).argmax(1) == labels).float().mean().item()


for epoch in range(epochs):
    if sampler is not None:
        sampler.set_epoch(epoch)
    for points, labels in train_data:
        opt.zero_grad()
        nn.functional.cross_entropy(network(points), labels).backward()
        opt.step()
    schedule.step()
    with trial.evaluating():
        trial.report(validation=accuracy(validation_set), test=lambda: accuracy(test_set))

torch.save(model.state_dict(), trial.folder / "model.pt")
if several:
    dist.destroy_process_group()
