"""Object detection by names: a dataset with boxes and a detector, scored by VOC's mean average precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.lab.tasks.base import NamedTask, TaskConfig
from gaf.lab.tasks.detection.boxes import detect
from gaf.lab.tasks.detection.loss import Losses, match, multibox_loss
from gaf.lab.tasks.detection.metric import Detections, average_precisions

if TYPE_CHECKING:
    from gaf.lab.data.sources import Source
    from gaf.lab.tasks.detection.source import DetectionBatch, VocSource


CHANCE = 0.01  # mAP: boxes without a look get 0, but a hit among few test images counts for much


class Detection(NamedTask["VocSource"]):
    """SSD's loss on a dataset with boxes.

    ``mAP`` is by the 11-point rule of VOC2007, as in the paper's Table IV, ``mAP_area`` by that of 2010 and
    later.
    """

    score: ClassVar[str] = "mAP"

    def __init__(self, config: TaskConfig) -> None:
        from gaf.lab.tasks import models

        if config.label_smoothing:
            raise GafError("SSD's loss has no label smoothing: leave label_smoothing at 0")
        if config.model not in models.DETECTORS:
            known = ", ".join(models.DETECTORS)
            raise GafError(f"{config.model} is no detector; a detection task takes {known}")
        super().__init__(config)

    def open_split(self, split: str, **changes: Any) -> VocSource:
        from gaf.lab.data.voc import VocImages
        from gaf.lab.tasks.detection.source import VocSource

        images = super().open_split(split, **changes)
        if not isinstance(images, VocImages):
            raise GafError(f"{self.config.data} has no boxes to find; use voc, voc2007 or voc2012")
        return VocSource(images)

    def scored_part(self) -> Source:
        from gaf.lab.tasks.detection.source import objects_of

        source = super().scored_part()
        if not (~objects_of(source).difficult).any():
            raise GafError(
                f"the {self.scored_on} images of {self.config.data} show no object to find"
            )
        return source

    def build_model(self) -> nn.Module:
        return self.build(classes=len(self.train_source().classes), **self.config.model_options)

    def loss(self, model: nn.Module, batch: DetectionBatch) -> Tensor:
        """Over the matched boxes of the batch; each process and accumulated part counts its own."""
        return self._forward(model, batch)[1].mean()

    def _forward(
        self, model: nn.Module, batch: DetectionBatch
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Losses]:
        """What the model says with its default boxes, and the losses."""
        logits, numbers = model(batch.images)
        defaults: Tensor = model.defaults  # type: ignore[assignment]
        matches = match(batch.labels, batch.boxes, defaults)
        return (logits, numbers, defaults), multibox_loss(logits, numbers, matches, defaults)

    def chance(self) -> float:
        return CHANCE

    def outcomes(self, model: nn.Module, batch: DetectionBatch) -> dict[str, Tensor]:
        """The detections of each image, and its part of the loss."""
        outputs, losses = self._forward(model, batch)
        return {"found": detect(*outputs), "loss": losses.total, "matched": losses.matched}

    def metrics(self, outcomes: dict[str, Tensor]) -> dict[str, float]:
        """The loss, mAP by both rules, and the average precision of each class that there is to find."""
        from gaf.lab.tasks.detection.source import objects_of

        source = self.scored_part()
        objects, classes = objects_of(source), source.classes
        precisions = average_precisions(flat(outcomes["found"].cpu()), objects, len(classes))
        eleven, area = precisions.means()
        loss = outcomes["loss"].double().sum() / outcomes["matched"].sum().clamp(min=1)
        figures = {"loss": loss.item(), "mAP": eleven, "mAP_area": area}
        for rule, values in (("AP", precisions.eleven_points), ("AP_area", precisions.area)):
            for name, value in zip(classes, values.tolist(), strict=True):
                if value == value:  # a class without objects has none
                    figures[f"{rule}/{name}"] = value
        return figures


def flat(detections: Tensor) -> Detections:
    """The rows [images, 200, 6] that ``detect`` gives as one list, without the empty ones."""
    there = detections[..., 1] > 0
    image = torch.arange(len(detections))[:, None].expand(there.shape)[there]
    rows = detections[there]
    return Detections(image, rows[:, 0].long(), rows[:, 1], rows[:, 2:])
