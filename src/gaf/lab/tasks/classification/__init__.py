"""Image classification by names: a dataset of the catalog and a model of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gaf.common.errors import GafError
from gaf.lab.tasks.base import NamedTask, evaluating, first_line, lucky_guess

if TYPE_CHECKING:
    from gaf.lab.data.sources import Source


class Classification(NamedTask["Source"]):
    """Cross-entropy on a dataset; the score is the share of test images named right."""

    def open_split(self, split: str, **changes: Any) -> Source:
        from gaf.lab.data.voc import VocImages

        source = super().open_split(split, **changes)
        if isinstance(source, VocImages):
            raise GafError(self._unfit("data with boxes want task.kind=detection"))
        return source

    def split_training(self, share: float) -> tuple[Tensor, Tensor]:
        """By class: of each the same share."""
        from gaf.lab.data.sources import hold_out

        targets: Tensor | None = getattr(self.train_source(), "targets", None)
        return super().split_training(share) if targets is None else hold_out(targets.cpu(), share)

    def _unfit(self, reason: str) -> str:
        return f"{self.config.model} and {self.config.data} do not fit: {reason}"

    def build_model(self) -> nn.Module:
        source, options = self.train_source(), self.config.model_options
        if "classes" in options:
            raise GafError(f"the data decide the number of classes; {self.config.model} takes none")
        shape = {"in_channels": source.shape[0]} if len(source.shape) == 3 else {}
        return self.build(**{"classes": len(source.classes), **shape, **options})

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
                logits = model(torch.zeros(2, *source.shape))
            except RuntimeError as error:
                reason = f"for images of {source.shape} the model says {first_line(error)}"
                raise GafError(self._unfit(reason)) from error
        if tuple(logits.shape) != wanted:
            reason = f"for {wanted[0]} images the model gives {tuple(logits.shape)}, not {wanted}"
            raise GafError(self._unfit(reason))

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, labels = batch
        smoothing = self.config.label_smoothing
        return functional.cross_entropy(model(images), labels, label_smoothing=smoothing)

    def chance(self) -> float | None:
        targets: Tensor | None = getattr(self.scored_part(), "targets", None)
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
