"""An image through a window: cut, resized, coloured and laid on grey, in one go."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from gaf.lab.data.photos import tensor
from gaf.lab.tasks.detection.augment import Colours, Window, placed

WHOLE_IMAGE = Window()


def view(
    image: Image.Image,
    size: int,
    window: Window = WHOLE_IMAGE,
    colours: Colours | None = None,
    *,
    around: Sequence[float] = (0.0, 0.0, 0.0),
) -> Tensor:
    """What a window shows of an image: uint8 [3, size, size].

    Args:
        image: in RGB.
        size: of the sides of the view; the image's own proportions are not kept, which SSD does not do.
        window: the part that is seen.
        colours: what is done to the image's own pixels.
        around: the level of each channel beyond the image, of 255.
    """
    left, top, right, bottom = window.edges
    first_x, last_x, low_x, high_x = placed((left, right), image.width, size)
    first_y, last_y, low_y, high_y = placed((top, bottom), image.height, size)
    part = image.resize(
        (last_x - first_x, last_y - first_y),
        Image.Resampling.BILINEAR,
        box=(low_x, low_y, high_x, high_y),
    )
    pixels = tensor(part)
    if colours is not None:
        pixels = colours(pixels.float()).round().to(torch.uint8)
    seen = torch.tensor(around).round().to(torch.uint8).view(3, 1, 1).repeat(1, size, size)
    seen[:, first_y:last_y, first_x:last_x] = pixels
    return seen.flip(2) if window.mirrored else seen
