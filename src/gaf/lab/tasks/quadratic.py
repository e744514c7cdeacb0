"""A quadratic whose gradients have Cauchy noise: no mean, no variance, at every step and in every direction.

    L(w) = ½ Σᵢ hᵢ wᵢ²,   g(w) = ∇L(w) + σ ξ,   ξᵢ Cauchy,   hᵢ from 1 to 1/30, evenly in the logarithm

Steps that are linear in g do not converge at any rate; bounded ones do (Polyak and Tsypkin, 1979; Jakovetić
et al., *Nonlinear gradient mappings and stochastic optimization*, 2023). There is no data to hold out: the
score is L itself, and tuning and verdict differ in their seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gaf.lab.data.augment import draws, uniform
from gaf.lab.tasks import Task
from gaf.lab.tasks.made import MadeSource

DIMENSION, NOISE, CONDITION = 4096, 0.1, 30.0
STEPS = 500  # of an epoch, each with a draw of its own


class CauchyNoise:
    """A sample is a draw of the noise, by (seed, epoch, index)."""

    name, classes, shape = "cauchy", (), (DIMENSION,)
    fingerprint: ClassVar[dict[str, str]] = {"cauchy": f"scale {NOISE:g}, {DIMENSION} dimensions"}

    def __len__(self) -> int:
        return STEPS

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[Tensor]:
        for batch in indices:
            shares = uniform(draws(seed, epoch, batch.to(device), DIMENSION))
            yield (NOISE * torch.tan(math.pi * (shares + 2.0**-33 - 0.5))).float()


class Point(nn.Module):
    """The place w, which begins at random, and the curvatures h."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(DIMENSION))
        exponents = torch.linspace(0, 1, DIMENSION, dtype=torch.float64)
        self.register_buffer("h", (CONDITION**-exponents).float())

    def forward(self) -> Tensor:
        """L at w, in units of what it is where all wᵢ are 1: about 1 at the start."""
        return (self.h * self.w.square()).sum() / self.h.sum()  # type: ignore[operator]


class CauchyQuadratic(Task):
    """The score is log10 of L at the end, in units of its value at the start: -2 is a hundredth."""

    score: ClassVar[str] = "decades"
    higher_is_better: ClassVar[bool] = False
    worst: ClassVar[float] = math.inf

    def build_model(self) -> nn.Module:
        return Point()

    def train_source(self) -> Any:
        return CauchyNoise()

    def training_part(self) -> Any:
        return self.train_source()

    def test_source(self) -> Any:
        return MadeSource("quadratic", f"condition {CONDITION:g}", torch.zeros(1, 1))

    def validation_part(self) -> Any:
        return MadeSource("quadratic", f"condition {CONDITION:g}", torch.zeros(1, 1))

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """L, with the gradient ∇(½ Σ h w²) + the mean of the batch's noise."""
        value = model().detach()
        steered = (0.5 * model.h * model.w.square()).sum() + (batch.mean(0) * model.w).sum()  # type: ignore[operator]
        return value + steered - steered.detach()

    def outcomes(self, model: nn.Module, batch: tuple[Tensor]) -> dict[str, Tensor]:
        return {"loss": model().double().expand(len(batch[0]))}

    def metrics(self, outcomes: dict[str, Tensor]) -> dict[str, float]:
        loss = outcomes["loss"].mean().item()
        return {"loss": loss, "decades": math.log10(loss) if loss > 0 else loss}

    def chance(self) -> float:
        """Where a training begins, with some luck."""
        return -0.1


def cauchy_quadratic() -> Task:
    """What the config names."""
    return CauchyQuadratic()
