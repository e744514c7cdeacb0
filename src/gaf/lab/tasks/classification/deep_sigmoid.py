"""The hard case: digits and a deep sigmoid perceptron, which plain SGD does not train at any learning rate.

gaf tune                      # is this case
gaf train gaf.lab.tasks.classification.deep_sigmoid:deep_sigmoid
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from gaf.lab.data.sources import hold_out
from gaf.lab.tasks import Task
from gaf.lab.tasks.base import lucky_guess
from gaf.lab.tasks.made import MadeTask
from gaf.lab.tasks.models import build
from gaf.lab.theory.learning import digits

TRAIN = 1200  # of 1797 images; the other 597 are the test
SPLIT_SEED = 0  # torch.randperm(1797) of this seed; its first 1200 are learned from
KIND = "gaf.lab.tasks.classification.deep_sigmoid:deep_sigmoid"


class _Digits:
    """Pixels / 16 and labels, by index."""

    name, shape = "digits", (1, 8, 8)
    classes = tuple("0123456789")

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self._images, self.targets = images, labels
        digest = hashlib.sha256(images.numpy().tobytes() + labels.numpy().tobytes()).hexdigest()
        self.fingerprint = {"sklearn.datasets.load_digits": digest}

    def __len__(self) -> int:
        return len(self.targets)

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        self._images, self.targets = self._images.to(device), self.targets.to(device)
        for batch in indices:
            index = batch.to(device)
            yield self._images[index], self.targets[index]


class DeepSigmoid(MadeTask):
    """Six linear layers of width 64 with sigmoids between them, torch's default initialisation."""

    @cached_property
    def splits(self) -> tuple[_Digits, _Digits]:
        pixels, labels = digits()
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
        images, targets = pixels.float().view(-1, 1, 8, 8)[order], labels[order]
        return _Digits(images[:TRAIN], targets[:TRAIN]), _Digits(images[TRAIN:], targets[TRAIN:])

    def build_model(self) -> nn.Module:
        return build("mlp", classes=10, in_channels=1, depth=5, width=64, activation="sigmoid")

    def split_training(self, share: float) -> tuple[Tensor, Tensor]:
        return hold_out(self.train_source().targets.cpu(), share)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(model(images), labels)

    def chance(self) -> float:
        return lucky_guess(self.scored_part().targets.cpu())  # type: ignore[attr-defined]

    def outcomes(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        images, labels = batch
        logits = model(images)
        return {
            "loss": functional.cross_entropy(logits, labels, reduction="none"),
            "top1": (logits.argmax(dim=1) == labels) & logits.isfinite().all(dim=1),
        }


def deep_sigmoid() -> Task:
    """What ``gaf train gaf.lab.tasks.classification.deep_sigmoid:deep_sigmoid`` calls."""
    return DeepSigmoid()
