"""A language model by names: a text of the catalog and a decoder, scored by bits per character."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from gaf.common.errors import GafError
from gaf.lab.tasks.base import NamedTask, TaskConfig

if TYPE_CHECKING:
    from gaf.lab.data.text import TextSource


class Language(NamedTask["TextSource"]):
    """Cross-entropy of the next character. The score ``bpc`` is that of the test, in bits; lower is better.

    A guess that knows nothing takes log2 of the number of characters. Windows are judged apart, so the first
    characters of each are guessed with little to go by.
    """

    score: ClassVar[str] = "bpc"
    higher_is_better: ClassVar[bool] = False
    worst: ClassVar[float] = math.inf

    def __init__(self, config: TaskConfig) -> None:
        from gaf.lab.tasks import models

        if config.model not in models.DECODERS:
            known = ", ".join(models.DECODERS)
            raise GafError(f"{config.model} is no decoder; a language task takes {known}")
        super().__init__(config)

    def open_data(self) -> tuple[TextSource, TextSource]:
        from gaf.lab.data.text import TextSource

        train, test = super().open_data()
        if not isinstance(train, TextSource):
            raise GafError(f"{self.config.data} is no text to read; use text")
        return train, test

    def build_model(self) -> nn.Module:
        source, options = self.train_source(), self.config.model_options
        if taken := {"classes", "size"} & set(options):
            raise GafError(
                f"the data decide {taken.pop()} of {self.config.model}; "
                "the length of a window is task.data_options.size"
            )
        return self.build(classes=len(source.classes), size=source.shape[0], **options)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """The mean over windows and places; all windows are of one length."""
        characters, following = batch
        logits = model(characters).flatten(0, 1)
        smoothing = self.config.label_smoothing
        return functional.cross_entropy(logits, following.flatten(), label_smoothing=smoothing)

    def chance(self) -> float:
        """The entropy of the test's characters: what a guess by their frequencies takes, at best."""
        source = self.test_source()
        judged = source.codes.cpu()[1 : len(source) * source.shape[0] + 1]
        shares = judged.bincount().double() / len(judged)
        return -torch.special.xlogy(shares, shares).sum().item() / math.log(2)

    def outcomes(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """The mean loss of each window, in nats and without smoothing."""
        characters, following = batch
        logits = model(characters).float().transpose(1, 2)
        return {"loss": functional.cross_entropy(logits, following, reduction="none").mean(1)}

    def metrics(self, outcomes: dict[str, Tensor]) -> dict[str, float]:
        """The loss, and the same in bits."""
        loss = outcomes["loss"].double().mean().item()
        return {"loss": loss, "bpc": loss / math.log(2)}
