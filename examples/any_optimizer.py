"""f in front of an optimizer we have never heard of: here torch's RMSprop, then off again."""

import copy

import torch
from torch import nn

import gaf

torch.manual_seed(0)
points = torch.randn(256, 8)
labels = (points[:, 0] * points[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))


def train(opt: torch.optim.Optimizer, steps: int) -> float:
    for _ in range(steps):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        opt.step()
    return loss.item()


groups = [
    {"params": model[0].parameters()},
    {"params": model[2].parameters(), "activation": None},  # the head stays as it is
]
opt = torch.optim.RMSprop(groups, lr=1e-3, alpha=0.9)
same = gaf.activate(opt, gaf.Tanh(0.2, 10))
print("the same object back:   ", same is opt and isinstance(opt, torch.optim.RMSprop))
print("functions of the groups:", [gaf.activation_of(group) for group in opt.param_groups])
print("RMSprop's own alpha:    ", opt.param_groups[0]["alpha"])
print(f"loss after 100 steps:    {train(opt, 100):.4f}")

# What gaf.activate does to p.grad is one choice: it is activated in place.
print(f"largest gradient left:   {model[0].weight.grad.abs().max():.4f}, bound 0.2")

# Copies and pickles keep the activation, which plain hooks would lose.
print("a copy is activated:    ", gaf.is_activated(copy.deepcopy(opt)))

gaf.deactivate(opt)
print("activated after undo:   ", gaf.is_activated(opt))
print(f"loss after 100 more:     {train(opt, 100):.4f}")
