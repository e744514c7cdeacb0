"""A detector from the checkpoint of a run, and what it finds in an image; the data need not be there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from gaf.common.errors import GafError
from gaf.lab.data import photos
from gaf.lab.data.augment import scale_and_shift
from gaf.lab.data.errors import reason
from gaf.lab.data.folder_source import MEAN, STD
from gaf.lab.data.names import VOC
from gaf.lab.engine import checkpoint
from gaf.lab.engine.folder import read_config
from gaf.lab.engine.place import find
from gaf.lab.landscape.slices_directions import check_state
from gaf.lab.tasks.detection.defaults import SIZE
from gaf.lab.tasks.detection.nms import detect
from gaf.lab.tasks.detection.ssd import SSD300
from gaf.lab.tasks.detection.views import view
from gaf.lab.tasks.models import build


class Found(NamedTuple):
    """One detection."""

    name: str
    score: float
    box: tuple[float, ...]  # left, top, right, bottom in pixels of the image


class Detector:
    """A trained model that names and places the objects of VOC's 20 classes.

    Args:
        place: the folder of a run, for its last checkpoint, or a checkpoint in it.
    """

    def __init__(self, place: Path) -> None:
        folder, step = find(place)
        config = read_config(folder)
        if config.task.kind != "detection":
            raise GafError(
                f"{folder} holds a {config.task.kind} run: gaf detect wants a detection run"
            )
        options: dict[str, Any] = {
            k: v for k, v in config.task.model_options.items() if k != "weights"
        }
        model = build(config.task.model, classes=len(VOC), **options)
        assert isinstance(model, SSD300)
        state, _ = checkpoint.load_model(step)
        check_state(model, state, f"the checkpoint {step}")
        model.load_state_dict(state)
        self.model, self.step = model.eval(), step

    @torch.no_grad()
    def __call__(self, path: Path, least: float) -> tuple[Image.Image, list[Found]]:
        """The image of a file and what is found in it with at least this score, the surest first."""
        image = _decoded(path)
        scale, shift = scale_and_shift(MEAN, STD, 255.0, torch.device("cpu"))
        pixels = view(image, SIZE).float().mul_(scale).add_(shift)
        logits, numbers = self.model(pixels[None])
        found = detect(logits, numbers, self.model.defaults)[0]
        label, score = found[:, 0], found[:, 1]
        shown = (label >= 0) & (score >= least)  # rows beyond the detections have score 0
        return image, _in_pixels(found[shown], image.size)


def _decoded(path: Path) -> Image.Image:
    """The image as whoever looks at it sees it, or a sentence."""
    try:
        return photos.decode(path, upright=True)
    except UnidentifiedImageError:
        raise GafError(f"{path} is no image that can be read") from None
    except Exception as error:  # a decoder can fail in any way on a damaged file
        raise GafError(f"{path} cannot be read: {' '.join(reason(error).split())[:200]}") from None


def _in_pixels(rows: Tensor, size: tuple[int, int]) -> list[Found]:
    width, height = size
    scaled = rows[:, 2:] * torch.tensor([width, height, width, height])
    return [
        Found(VOC[int(label)], score, tuple(box))
        for (label, score), box in zip(rows[:, :2].tolist(), scaled.tolist(), strict=True)
    ]
