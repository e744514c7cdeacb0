"""A physics-informed net: a perceptron that solves the heat equation, by the residual at points.

    u_t = u_xx / π²  on [0, 1]²,   u(x, 0) = sin πx,   u(0, t) = u(1, t) = 0;   solution e^(-t) sin πx

Its losses are badly scaled against each other, and usually trained by Adam (Raissi, Perdikaris and
Karniadakis, 2019; Wang, Teng and Perdikaris, *Understanding and mitigating gradient flow pathologies in
physics-informed neural networks*, 2021). The gradients have no heavy tail that a bounded f could mend.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from gaf.lab.tasks import Task
from gaf.lab.tasks.made import MadeSource, MadeTask, uniforms

WIDTH, DEPTH = 32, 3
TRAIN, TEST = 2_000, 1_000  # points (x, t)


def solution(points: Tensor) -> Tensor:
    """u at points [N, 2] of (x, t)."""
    x, t = points.unbind(1)
    return torch.exp(-t) * torch.sin(math.pi * x)


class HeatEquation(MadeTask):
    """The score is log10 of the relative error at test points, ‖u - û‖ / ‖u‖: -2 is one percent.

    A sample is a point: where the residual is taken, and whose x and t are used at the start and the walls.
    """

    score: ClassVar[str] = "decades"
    higher_is_better: ClassVar[bool] = False
    worst: ClassVar[float] = math.inf

    @cached_property
    def splits(self) -> tuple[MadeSource, MadeSource]:
        points = uniforms(5, TRAIN + TEST, 2).float()
        return (
            MadeSource("heat", f"{TRAIN} points", points[:TRAIN]),
            MadeSource("heat", f"{TEST} points after {TRAIN}", points[TRAIN:]),
        )

    def build_model(self) -> nn.Module:
        sizes = [2, *[WIDTH] * DEPTH]
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise(sizes):
            layers += [nn.Linear(fan_in, fan_out), nn.Tanh()]
        return nn.Sequential(*layers, nn.Linear(WIDTH, 1))

    def loss(self, model: nn.Module, batch: tuple[Tensor]) -> Tensor:
        with torch.enable_grad():  # the residual has derivatives in it, wherever it is asked for
            return residual(model, batch[0]) + edges(model, batch[0])

    def outcomes(self, model: nn.Module, batch: tuple[Tensor]) -> dict[str, Tensor]:
        exact = solution(batch[0])
        return {"error": (model(batch[0])[:, 0] - exact).square(), "exact": exact.square()}

    def metrics(self, outcomes: dict[str, Tensor]) -> dict[str, float]:
        error, exact = (outcomes[name].double().mean().item() for name in ("error", "exact"))
        relative = math.sqrt(error / exact)
        return {"error": relative, "decades": math.log10(relative) if relative > 0 else -math.inf}

    def chance(self) -> float:
        """The error of û = 0."""
        return 0.0


def residual(model: nn.Module, points: Tensor) -> Tensor:
    """The mean of (u_t - u_xx / π²)²."""
    x, t = (column.clone().requires_grad_() for column in points.unbind(1))
    u = model(torch.stack([x, t], dim=1)).sum()
    u_x, u_t = torch.autograd.grad(u, (x, t), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return (u_t - u_xx / math.pi**2).square().mean()


def edges(model: nn.Module, points: Tensor) -> Tensor:
    """The mean squares of what is wrong at t = 0 and at both walls."""
    x, t = points.unbind(1)
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    start = torch.stack([x, zero], dim=1)
    walls = torch.cat([torch.stack([zero, t], dim=1), torch.stack([one, t], dim=1)])
    wrong = model(start)[:, 0] - solution(start)
    return wrong.square().mean() + model(walls).square().mean()


def heat_equation() -> Task:
    """What the config names."""
    return HeatEquation()
