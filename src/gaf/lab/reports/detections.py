"""A detector from the checkpoint of a run, what it finds in an image, and boxes and names on the picture.

The data need not be there.
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image, ImageDraw, ImageFont, UnidentifiedImageError
from torch import Tensor

from gaf.common.errors import GafError
from gaf.lab.data import photos
from gaf.lab.data.augment import scale_and_shift
from gaf.lab.data.files import reason
from gaf.lab.data.imagefolder import MEAN, STD
from gaf.lab.data.voc import VOC
from gaf.lab.engine import checkpoint
from gaf.lab.engine.checkpoint import find
from gaf.lab.engine.folder import read_config
from gaf.lab.landscape.slices import check_state
from gaf.lab.tasks.detection.augment import view
from gaf.lab.tasks.detection.boxes import SIZE, detect
from gaf.lab.tasks.detection.ssd import SSD300
from gaf.lab.tasks.models import build

GOLDEN = 0.618034  # of the circle of hues from one class to the next: neighbours look different


class DetectedObject(NamedTuple):
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
    def __call__(self, path: Path, least: float) -> tuple[Image.Image, list[DetectedObject]]:
        """The image of a file and what is found in it with at least this score, the surest first."""
        image = _decoded(path)
        scale, shift = scale_and_shift(MEAN, STD, 255.0, torch.device("cpu"))
        pixels = view(image, SIZE).float().mul_(scale).add_(shift)
        logits, numbers = self.model(pixels[None])
        rows = detect(logits, numbers, self.model.defaults)[0]
        label, score = rows[:, 0], rows[:, 1]
        shown = (label >= 0) & (score >= least)  # rows beyond the detections have score 0
        return image, _in_pixels(rows[shown], image.size)


def _decoded(path: Path) -> Image.Image:
    """The image as whoever looks at it sees it, or a sentence."""
    try:
        return photos.decode(path, upright=True)
    except UnidentifiedImageError:
        raise GafError(f"{path} is no image that can be read") from None
    except Exception as error:  # a decoder can fail in any way on a damaged file
        raise GafError(f"{path} cannot be read: {' '.join(reason(error).split())[:200]}") from None


def _in_pixels(rows: Tensor, size: tuple[int, int]) -> list[DetectedObject]:
    width, height = size
    scaled = rows[:, 2:] * torch.tensor([width, height, width, height])
    return [
        DetectedObject(VOC[int(label)], score, tuple(box))
        for (label, score), box in zip(rows[:, :2].tolist(), scaled.tolist(), strict=True)
    ]


def colour(name: str) -> tuple[int, int, int]:
    """Of a class, always the same; dark enough for white letters."""
    number = VOC.index(name)
    red, green, blue = colorsys.hls_to_rgb(number * GOLDEN % 1.0, 0.38, 0.85)
    return round(255 * red), round(255 * green), round(255 * blue)


def draw(image: Image.Image, objects: Sequence[DetectedObject]) -> Image.Image:
    """A copy of the image with a frame and a label for each detection, the surest on top."""
    picture = image.copy()
    pen = ImageDraw.Draw(picture)
    line = max(2, round(min(image.size) / 150))
    font = ImageFont.load_default(size=max(12, round(min(image.size) / 25)))
    for detected in sorted(objects, key=lambda detected: detected.score):
        left, top, right, bottom = detected.box
        ink = colour(detected.name)
        pen.rectangle(
            (left, top, max(left, right - 1), max(top, bottom - 1)), outline=ink, width=line
        )
        text = f"{detected.name} {detected.score:.2f}"
        _, _, wide, high = pen.textbbox((0, 0), text, font=font)
        x = max(0.0, min(left, image.width - wide - 2 * line))
        y = top - high - 2 * line if top >= high + 2 * line else top  # above the box, or in it
        pen.rectangle((x, y, x + wide + 2 * line, y + high + 2 * line), fill=ink)
        pen.text((x + line, y + line // 2), text, fill="white", font=font)
    return picture
