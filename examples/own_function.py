"""A function of your own: write its formula, have it verified, train with it by name."""

import torch
from torch import nn

import gaf


@gaf.register
class Gudermann(gaf.Activation):
    """f(g) = 2 alpha atan(tanh(beta g / 2)). The fields are its parameters; there may be any number."""

    alpha: float = 0.1
    beta: float = 20.0

    @staticmethod
    def formula(xp, g, alpha, beta):  # xp is torch here; keep to names that other libraries share
        return 2 * alpha * xp.arctan(xp.tanh(0.5 * beta * g))


@gaf.register
class Cube(gaf.Activation):
    """f(g) = g^3: not a gradient activation function, and `verify` says why."""

    @staticmethod
    def formula(xp, g):
        return g * g * g


f = Gudermann(alpha=0.1, beta=20)
print(f"{f}: slope {f.slope:g}, bound {f.bound:g}, crossover {f.crossover:.4f}")
print(f"f(0.05) = {f(0.05):.4f}, f'(0.05) = {f.derivative(0.05):.4f}\n")

print(gaf.verify(f), end="\n\n")
print(gaf.verify(Cube()), end="\n\n")

torch.manual_seed(0)
points = torch.randn(256, 8)
labels = (points.sum(dim=1) > 0).long()
model = nn.Linear(8, 2)
opt = gaf.SGD(model.parameters(), lr=0.5, momentum=0.9, activation="gudermann(0.1, beta=20)")
for step in range(51):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(points), labels)
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(f"step {step:2d}  loss {loss:.4f}")
saved = opt.state_dict()["param_groups"][0]
print("in the checkpoint:", {key: saved[key] for key in saved if key.startswith("gaf_")})
