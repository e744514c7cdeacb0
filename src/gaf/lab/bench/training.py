"""What the activation adds to a whole training step: forward, backward and the optimizer's step.

The model is a ResNet-20 for images of 32 by 32. The paper reports 1.2 s of an epoch of 42 s (2.9 %).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional

import gaf
from gaf.kernels import native
from gaf.lab.bench.contenders import ALPHA, BETA, FUNCTIONS, HYPER, Contender, authors_step

BATCH = 64
PAPER = 1.2 / 42


@dataclass
class TrainingTimes:
    """Seconds of whole training steps, and of the optimizer's part in them, by contender."""

    whole: dict[Contender, list[float]] = field(default_factory=dict)
    part: dict[Contender, list[float]] = field(default_factory=dict)
    base = Contender("SGD", "torch", "fused")

    def shares(self) -> dict[Contender, list[float]]:
        """What each contender's step takes beyond torch's fused one, over the whole step with torch's."""
        if self.base not in self.whole:
            return {}
        base, whole = self.part[self.base], self.whole[self.base]
        return {
            contender: [(mine - b) / w for mine, b, w in zip(part, base, whole, strict=True)]
            for contender, part in self.part.items()
            if contender != self.base and part
        }


def training_steps(parts: dict[Contender, list[float]]) -> dict[Contender, Callable[[], None]]:
    """A whole training step of each contender, on one model.

    ``parts`` is filled with the seconds of the optimizer's part in each.
    """
    from gaf.lab.tasks import models

    torch.manual_seed(0)
    model = models.build("resnet20-cifar", classes=10)
    images, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))

    def whole_step(contender: Contender, step: Callable[[], object]) -> None:
        model.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        began = time.perf_counter()
        step()
        parts.setdefault(contender, []).append(time.perf_counter() - began)

    return {
        contender: lambda contender=contender, step=step: whole_step(contender, step)
        for contender, step in _contenders(list(model.parameters())).items()
    }


def _contenders(params: list[nn.Parameter]) -> dict[Contender, Callable[[], object]]:
    velocities = [torch.zeros_like(p) for p in params]
    steps: dict[Contender, Callable[[], object]] = {}

    def add(contender: Contender, opt: torch.optim.Optimizer) -> None:
        for p, v in zip(params, velocities, strict=True):
            opt.state[p] = {"momentum_buffer": v}
        steps[contender] = opt.step

    add(TrainingTimes.base, torch.optim.SGD(params, **HYPER["SGD"], fused=True))
    for f in FUNCTIONS:
        if native.INSTRUCTION_SETS:
            opt = gaf.SGD(params, **HYPER["SGD"], fused=True, activation=f"{f}({ALPHA}, {BETA})")
            add(Contender("SGD", "gaf", "fused", f, opt.param_groups[0]["gaf_placement"]), opt)
        steps[Contender("SGD", "authors", None, f)] = lambda f=f: authors_step(
            params, velocities, f, ALPHA, BETA, **HYPER["SGD"]
        )
    return steps
