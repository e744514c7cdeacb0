"""What the activation adds to a whole training step: forward, backward and the optimizer's step.

The model is a ResNet-20 for images of 32 by 32. The paper reports 1.2 s of an epoch of 42 s (2.9 %).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

import gaf
from gaf.kernels import native
from gaf.lab.bench.authors import authors_step
from gaf.lab.bench.contenders import ALPHA, BETA, FUNCTIONS, HYPER, Rule
from gaf.lab.bench.timing import collect

BATCH = 64
PAPER = 1.2 / 42


class ResidualBlock(nn.Module):
    """Two convolutions of 3 by 3 and a way around them."""

    def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(fan_out)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(fan_out)
        self.around = nn.Conv2d(fan_in, fan_out, 1, stride, bias=False) if stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + (x if self.around is None else self.around(x)))


def resnet20() -> nn.Module:
    """Three stages of three blocks, 16 to 64 channels, 10 classes."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels = 16
    for width in (16, 32, 64):
        for block in range(3):
            layers.append(ResidualBlock(channels, width, 2 if width > 16 and block == 0 else 1))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


@dataclass
class TrainingTimes:
    """Seconds of whole training steps, and of the optimizer's part in them, by rule."""

    whole: dict[Rule, list[float]] = field(default_factory=dict)
    part: dict[Rule, list[float]] = field(default_factory=dict)
    base = Rule("SGD", "torch", "fused")

    def shares(self) -> dict[Rule, list[float]]:
        """What each rule's step takes beyond torch's fused one, over the whole step with torch's."""
        if self.base not in self.whole:
            return {}
        base, whole = self.part[self.base], self.whole[self.base]
        return {
            rule: [(mine - b) / w for mine, b, w in zip(part, base, whole, strict=True)]
            for rule, part in self.part.items()
            if rule != self.base and part
        }


def measure(
    training: TrainingTimes, *, repeats: int, budget: float, tick: Callable[[], None] = lambda: None
) -> None:
    """Fill ``training``; all rules train the same model in turn."""
    torch.manual_seed(0)
    model = resnet20()
    images, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))
    parts: dict[Rule, list[float]] = {}

    def whole_step(rule: Rule, step: Callable[[], object]) -> None:
        model.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        began = time.perf_counter()
        step()
        parts.setdefault(rule, []).append(time.perf_counter() - began)

    steps = {
        rule: lambda rule=rule, step=step: whole_step(rule, step)
        for rule, step in _rules(list(model.parameters())).items()
    }
    try:
        collect(steps, training.whole, repeats=repeats, budget=budget, shortest=0.0, tick=tick)
    finally:
        for rule, seconds in training.whole.items():
            # after the two steps of the warm-up
            training.part[rule] = parts[rule][2 : 2 + len(seconds)]


def _rules(params: list[nn.Parameter]) -> dict[Rule, Callable[[], object]]:
    velocities = [torch.zeros_like(p) for p in params]
    found: dict[Rule, Callable[[], object]] = {}

    def add(rule: Rule, opt: torch.optim.Optimizer) -> None:
        for p, v in zip(params, velocities, strict=True):
            opt.state[p] = {"momentum_buffer": v}
        found[rule] = opt.step

    add(TrainingTimes.base, torch.optim.SGD(params, **HYPER["SGD"], fused=True))
    for f in FUNCTIONS:
        if native.INSTRUCTION_SETS:
            opt = gaf.SGD(params, **HYPER["SGD"], fused=True, activation=f"{f}({ALPHA}, {BETA})")
            add(Rule("SGD", "gaf", "fused", f, opt.param_groups[0]["gaf_placement"]), opt)
        found[Rule("SGD", "authors", None, f)] = lambda f=f: authors_step(
            params, velocities, f, ALPHA, BETA, **HYPER["SGD"]
        )
    return found
