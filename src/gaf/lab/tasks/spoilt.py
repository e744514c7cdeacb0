"""A built-in task with spoilt batches: at a few steps, at random, the gradient is a thousand times too large.

What a broken sample, a bad record or an overflow does now and then. The scores are those of the task itself:
no batch of the validation or test data is spoilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from pydantic import JsonValue
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.lab.data.augment import draws, uniform
from gaf.lab.tasks import built_in, models
from gaf.lab.tasks.base import Task, TaskConfig

if TYPE_CHECKING:
    from gaf.lab.data.sources import Source

SHARE, FACTOR = 0.02, 1000.0
APART = (
    3 << 32
)  # added to the index of a sample: what spoils a batch is not what augments its first sample


class SpoiltBatches:
    """A source whose batches come with the factor on their gradient, 1 for most of them.

    It is drawn for (seed, epoch, first sample of the batch), so that a run can be repeated and resumed.

    Args:
        whole: the source.
        share: of the batches that are spoilt.
        factor: on the gradient of these.
    """

    def __init__(self, whole: Source, share: float, factor: float) -> None:
        self.whole, self.share, self.factor = whole, share, factor
        self.name, self.classes, self.shape = whole.name, whole.classes, whole.shape
        self.fingerprint = {**whole.fingerprint, "spoilt": f"{share:g} of the batches x {factor:g}"}

    def __len__(self) -> int:
        return len(self.whole)

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[tuple[float, Any]]:
        stream = self.whole.batches(indices, seed=seed, epoch=epoch, device=device)
        firsts = torch.stack([batch[0] for batch in indices]).cpu()
        spoilt = uniform(draws(seed, epoch, firsts + APART, 1))[:, 0] < self.share
        for is_spoilt, batch in zip(spoilt.tolist(), stream, strict=True):
            yield (self.factor if is_spoilt else 1.0), batch


class Spoiling(Task):
    """What stands before a built-in task to spoil its batches; the value of the loss stays what it is."""

    share, factor = SHARE, FACTOR

    def training_part(self) -> Any:
        return SpoiltBatches(super().training_part(), self.share, self.factor)

    def loss(self, model: nn.Module, batch: tuple[float, Any]) -> Tensor:
        factor, inside = batch
        loss = super().loss(model, inside)
        return loss if factor == 1 else loss.detach() + factor * (loss - loss.detach())


def spoilt(
    kind: str = "classification",
    share: float = SHARE,
    factor: float = FACTOR,
    **named: JsonValue,
) -> Task:
    """A task of a built-in kind, spoilt.

    Args:
        kind: classification or language.
        share: of the steps.
        factor: on their gradients.
        named: data, model and their options, as in a config.
    """
    if kind not in ("classification", "language"):
        raise GafError(f"spoilt batches are for classification and language, not for {kind}")
    config = TaskConfig.model_validate({"kind": kind, **named})
    whole = built_in(kind)
    made = type(f"Spoilt{whole.__name__}", (Spoiling, whole), {"share": share, "factor": factor})
    # a config with options names no model, so that the model's version is in the task's
    made.version = whole.version + models.version(config.model) - 1  # type: ignore[attr-defined]
    return made(config)  # type: ignore[call-arg]
