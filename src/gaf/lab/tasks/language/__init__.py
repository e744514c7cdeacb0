"""A language model by names: a text of the catalog and a decoder, scored by bits per character."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

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

    def open_split(self, split: str, **changes: Any) -> TextSource:
        from gaf.lab.data.text import TextSource

        source = super().open_split(split, **changes)
        if not isinstance(source, TextSource):
            raise GafError(f"{self.config.data} is no text to read; use text")
        return source

    def split_training(self, share: float) -> tuple[Tensor, Tensor]:
        """The last windows are for validation.

        The one before them is in neither part: a window that is trained on begins anywhere in its stretch of
        the text, and ends in the next.
        """
        windows = torch.arange(len(self.train_source()))
        first = len(windows) - round(share * len(windows))
        return windows[: max(0, first - 1)], windows[first:]

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
        """The entropy of the characters that are scored: what a guess by their frequencies takes, at best."""
        source = self.scored_part()
        windows = [torch.arange(len(source))]
        _, judged = next(iter(source.batches(windows, seed=0, epoch=0, device=torch.device("cpu"))))
        shares = judged.flatten().bincount().double() / judged.numel()
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
