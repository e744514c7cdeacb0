"""Image classification by names: a dataset of the catalog and a model of the registry."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.lab.tasks.base import Task, evaluating, first_line, lucky_guess

if TYPE_CHECKING:
    from gaf.lab.data.sources import Source
    from gaf.lab.tasks.config import TaskConfig


GIVEN = ("name", "split")  # of data.load, by the task


def load_sources(config: TaskConfig) -> tuple[Any, Any]:
    """The data of a config: to train on, and to test on."""
    from gaf.lab import data

    options: dict[str, Any] = dict(config.data_options)
    known = [each for each in inspect.signature(data.load).parameters if each not in GIVEN]
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known)
            raise GafError(f"unknown option {option!r} of the data {config.data}{hint}")
    train = data.load(config.data, "train", **options)
    # what changes the images that are learned from is no part of the test
    options.pop("augment", None)
    return train, data.load(config.data, "test", **options)


class Classification(Task):
    """Cross-entropy on a dataset; the score is the share of test images named right.

    Args:
        config: the names and options of data and model.
    """

    def __init__(self, config: TaskConfig) -> None:
        self.config = config

    @cached_property
    def _sources(self) -> tuple[Source, Source]:
        from gaf.lab.data.voc_images import VocImages

        train, test = load_sources(self.config)
        if isinstance(train, VocImages):
            raise GafError(self._unfit("data with boxes want task.kind=detection"))
        return train, test

    def _unfit(self, reason: str) -> str:
        return f"{self.config.model} and {self.config.data} do not fit: {reason}"

    def train_source(self) -> Source:
        return self._sources[0]

    def test_source(self) -> Source:
        return self._sources[1]

    def build_model(self) -> nn.Module:
        from gaf.lab.tasks import models

        source, options = self.train_source(), dict(self.config.model_options)
        if "classes" in options:
            raise GafError(f"the data decide the number of classes; {self.config.model} takes none")
        shape = {"in_channels": source.shape[0]} if len(source.shape) == 3 else {}
        return models.build(self.config.model, classes=len(source.classes), **{**shape, **options})

    def check(self, model: nn.Module) -> None:
        source = self.train_source()
        wanted = (2, len(source.classes))
        if hasattr(model, "defaults"):
            raise GafError(self._unfit("detectors want task.kind=detection"))
        if len(source.shape) != 3:
            reason = f"{self.config.data} are no images; text wants task.kind=language"
            raise GafError(self._unfit(reason))
        with evaluating(model):
            try:
                found = model(torch.zeros(2, *source.shape))
            except RuntimeError as error:
                reason = f"for images of {source.shape} the model says {first_line(error)}"
                raise GafError(self._unfit(reason)) from error
        if tuple(found.shape) != wanted:
            reason = f"for {wanted[0]} images the model gives {tuple(found.shape)}, not {wanted}"
            raise GafError(self._unfit(reason))

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, labels = batch
        smoothing = self.config.label_smoothing
        return functional.cross_entropy(model(images), labels, label_smoothing=smoothing)

    def chance(self) -> float | None:
        targets: Tensor | None = getattr(self.test_source(), "targets", None)
        return None if targets is None else lucky_guess(targets.cpu())

    def outcomes(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Loss without smoothing, and whether the label is the first guess or among the first five.

        Logits that are not finite name nothing right: topk would count NaN as the largest.
        """
        images, labels = batch
        logits = model(images).float()
        guesses = logits.topk(min(5, logits.shape[1]), dim=1).indices == labels[:, None]
        guesses &= logits.isfinite().all(dim=1, keepdim=True)
        return {
            "loss": functional.cross_entropy(logits, labels, reduction="none"),
            "top1": guesses[:, 0],
            "top5": guesses.any(dim=1),
        }
