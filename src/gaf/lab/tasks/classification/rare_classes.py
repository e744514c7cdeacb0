"""Softmax regression on classes of which the k-th has the frequency 1/k: most of the loss is in rare ones.

Steps along the gradient learn the frequent classes and hardly begin with the others; rules that look at signs
learn them alike (Kunstner, Milligan, Yadav, Schmidt and Bietti, *Heavy-tailed class imbalance and why Adam
outperforms gradient descent on language models*, 2024).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from gaf.lab.data.sources import hold_out
from gaf.lab.tasks import Task
from gaf.lab.tasks.made import MadeSource, MadeTask, normals, uniforms

CLASSES, FEATURES = 1000, 64
TRAIN, TEST = 20_000, 5_000
DISTANCE = 1.0  # of a class's mean from 0 in each feature, in units of the spread around it


class RareClasses(MadeTask):
    """A linear layer on clouds of points, one for each class; the score is the test's cross-entropy."""

    score: ClassVar[str] = "loss"
    higher_is_better: ClassVar[bool] = False
    worst: ClassVar[float] = math.inf

    @cached_property
    def splits(self) -> tuple[MadeSource, MadeSource]:
        rates = 1.0 / torch.arange(1, CLASSES + 1, dtype=torch.float64)
        edges = rates.cumsum(0) / rates.sum()
        picks = uniforms(1, TRAIN + TEST, 1)[:, 0]
        labels = torch.searchsorted(edges, picks).clamp(max=CLASSES - 1)
        means = DISTANCE * normals(2, CLASSES, FEATURES)
        points = means[labels] + normals(3, TRAIN + TEST, FEATURES)
        about = f"{CLASSES} classes, frequency 1/k, {FEATURES} features, distance {DISTANCE:g}"
        train = MadeSource("rare classes", f"{about}, {TRAIN}", points[:TRAIN], labels[:TRAIN])
        test = MadeSource(
            "rare classes", f"{about}, {TEST} after {TRAIN}", points[TRAIN:], labels[TRAIN:]
        )
        return train, test

    def build_model(self) -> nn.Module:
        """From zeros, as is usual for a convex problem."""
        layer = nn.Linear(FEATURES, CLASSES)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        return layer

    def split_training(self, share: float) -> tuple[Tensor, Tensor]:
        return hold_out(self.train_source().targets.cpu(), share)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        points, labels = batch
        return functional.cross_entropy(model(points), labels)

    def outcomes(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        points, labels = batch
        logits = model(points)
        return {
            "loss": functional.cross_entropy(logits, labels, reduction="none"),
            "top1": logits.argmax(dim=1) == labels,
        }

    def chance(self) -> float:
        """The entropy of the frequencies: what a guess without a look at the point takes."""
        shares = self.scored_part().targets.bincount().double()  # type: ignore[attr-defined]
        shares /= shares.sum()
        return -torch.special.xlogy(shares, shares).sum().item()


def rare_classes() -> Task:
    """What the config names."""
    return RareClasses()
