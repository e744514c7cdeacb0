"""Change alpha and beta during training, and watch what the function does meanwhile.

beta falls from 200 to 20 in the first 60 steps while alpha rises from 0.01 to 0.1, so that the slope
stays 2: the learning rate that small gradients see does not change, but the range that is linear grows.
"""

import tempfile
from pathlib import Path

import torch
from torch import nn

import gaf

torch.manual_seed(0)
points = torch.randn(512, 16)
target = torch.sin(points[:, :1]) * points[:, 1:2]
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))

opt = gaf.SGD(model.parameters(), lr=0.05, momentum=0.9, activation=gaf.Arctan(0.1, 20))
narrow = gaf.Ramp(0.1, 1.0, steps=60)
alphas_and_betas = gaf.ParamScheduler(opt, alpha=narrow, beta=lambda step: 1 / narrow(step))
rates = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=120)
monitor = gaf.Monitor(opt, every=20)

for _ in range(120):
    opt.zero_grad()
    nn.functional.mse_loss(model(points), target).backward()
    opt.step()
    rates.step()
    alphas_and_betas.step()

print("step   alpha    beta  slope  largest input   linear  restrained")
for record in monitor.records:
    f = gaf.parse(record["function"])
    print(
        f"{record['step']:4d}{f.alpha:8.3f}{f.beta:8.1f}{f.slope:7.2g}{record['input']['max']:15.3f}"
        f"{100 * record['linear']:7.1f} %{100 * record['restrained']:10.1f} %"
    )
print(f"\nAt the end: {monitor}")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "monitor.jsonl")
    monitor.write_jsonl(path)
    print(
        f"\nThe first of {len(monitor.records)} lines of JSON:\n{path.read_text().splitlines()[0]}"
    )
