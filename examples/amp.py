"""Mixed precision: autocast and a GradScaler, with nothing to change but the optimizer.

f must see gradients without the loss scale. Our optimizers are given unscaled gradients by
`scaler.step`, which also skips a step that overflowed, before f could turn inf into a finite number.
"""

import torch
from torch import nn

import gaf

torch.manual_seed(0)
points = torch.randn(256, 16)
target = points[:, :4].prod(dim=1, keepdim=True)
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))

opt = gaf.SGD(model.parameters(), lr=0.05, momentum=0.9, activation=gaf.Arctan(0.1, 20))
monitor = gaf.Monitor(opt)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)

for step in range(60):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(points), target)
    scaler.scale(loss).backward()
    if step == 30:  # play an overflow: the scaler finds it and skips the step
        model[0].weight.grad[0, 0] = torch.inf
    before = model[0].weight.detach().clone()
    scaler.step(opt)
    scaler.update()
    if step % 10 == 0:
        moved = "moved" if (model[0].weight != before).any() else "skipped, an overflow"
        print(f"step {step:2d}  loss {loss:.4f}  scale {scaler.get_scale():6.0f}  weights {moved}")

print(f"\n{len(monitor.records)} of 60 steps were taken. In the last one:\n{monitor}\n")

# Clipping as well: unscale by hand first, then clip; f sees the clipped gradients.
opt.zero_grad()
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = nn.functional.mse_loss(model(points), target)
scaler.scale(loss).backward()
scaler.unscale_(opt)
norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.05)
scaler.step(opt)
scaler.update()
print(f"Then once with clipping: a norm of {norm:.3f}, cut to at most 0.05 before f acts.")
