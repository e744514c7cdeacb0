"""SSD's training images: which part of an image is seen, and in which colours (Liu et al., 2016, 2.2).

First a window is chosen, which may reach beyond the image (*expand*) and then is cut down to a part that
overlaps some object enough (*crop*); boxes follow by arithmetic. Only then are pixels touched, once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor

from gaf.lab.data.photos import tensor
from gaf.lab.tasks.detection.boxes import iou

EXPAND = 4.0  # at most, times the sides of the image
SIDES = (0.3, 1.0)  # of a crop, as shares of the (expanded) image's
RATIO = (0.5, 2.0)  # its width over its height, in pixels
# What the crop overlaps some object by, at the least; 0: any crop, None: no crop.
OVERLAPS = (None, 0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
TRIES = 50
BRIGHTNESS = 32.0  # levels of 255, up or down
CONTRAST = SATURATION = (0.5, 1.5)
HUE = 18.0  # degrees, either way
WHOLE = (0.0, 0.0, 1.0, 1.0)
SMALLEST = 1e-4  # share of a side: what is left of an object in a crop is no line


class Window(NamedTuple):
    """The part of the plane that is seen: edges as shares of the image, and whether it is mirrored."""

    edges: tuple[float, float, float, float] = WHOLE
    mirrored: bool = False


def random_window(boxes: Tensor, shape: float, rng: random.Random) -> Window:
    """What a training image shows.

    Args:
        boxes: of the objects, as shares of the image, [N, 4].
        shape: width over height of the image.
        rng: where chance comes from; the same numbers, the same window.
    """
    edges = WHOLE
    if rng.random() < 0.5:
        times = rng.uniform(1.0, EXPAND)
        left, top = -rng.uniform(0.0, times - 1), -rng.uniform(0.0, times - 1)
        edges = (left, top, left + times, top + times)
    if len(boxes):
        edges = _cropped(edges, boxes, shape, rng)
    return Window(edges, rng.random() < 0.5)


def _cropped(
    edges: tuple[float, float, float, float], boxes: Tensor, shape: float, rng: random.Random
) -> tuple[float, float, float, float]:
    """A part of the window with the centre of an object in it, that overlaps some object enough.

    Where 50 tries give none, the demand is drawn anew; sooner or later it is that for no crop.
    """
    while (least := rng.choice(OVERLAPS)) is not None:
        crops = _tries(edges, rng)
        width, height = (crops[:, 2:] - crops[:, :2]).unbind(1)
        ratio = width * shape / height
        good = (ratio >= RATIO[0]) & (ratio <= RATIO[1])
        good &= inside(boxes.double(), crops).any(dim=1)
        good &= iou(crops, boxes.double()).max(dim=1).values >= least
        if good.any():
            left, top, right, bottom = crops[int(good.nonzero()[0])].tolist()
            return left, top, right, bottom
    return edges


def _tries(edges: tuple[float, float, float, float], rng: random.Random) -> Tensor:
    """Random parts of a window, float64 [TRIES, 4]."""
    number = torch.tensor([rng.random() for _ in range(4 * TRIES)], dtype=torch.float64).view(-1, 4)
    whole = torch.tensor(edges, dtype=torch.float64)
    extent = whole[2:] - whole[:2]
    side = (SIDES[0] + (SIDES[1] - SIDES[0]) * number[:, :2]) * extent
    start = whole[:2] + number[:, 2:] * (extent - side)
    return torch.cat((start, start + side), dim=1)


def inside(boxes: Tensor, windows: Tensor) -> Tensor:
    """Whether the centre of each box is in each window: bool [windows, boxes]."""
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    return ((centre >= windows[:, None, :2]) & (centre <= windows[:, None, 2:])).all(dim=-1)


def boxes_in(window: Window, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """The objects that a window shows: their boxes as shares of it, and which of all they are (bool [N]).

    An object whose centre is outside is left out. What remains of the others is cut at the edges, and keeps
    an extent: a box on the edge of the image may have had nearly none.
    """
    edges = torch.tensor([window.edges], dtype=torch.float64)
    extent = edges[:, 2:] - edges[:, :2]
    seen = (
        ((boxes.double().view(-1, 2, 2) - edges[:, None, :2]) / extent[:, None])
        .view(-1, 4)
        .clamp(0, 1)
    )
    kept = inside(boxes.double(), edges)[0]
    kept &= ((seen[:, 2:] - seen[:, :2]) > SMALLEST).all(dim=1)
    if window.mirrored:
        seen = torch.stack((1 - seen[:, 2], seen[:, 1], 1 - seen[:, 0], seen[:, 3]), dim=1)
    return seen[kept].to(boxes.dtype), kept


class Colours(NamedTuple):
    """A photometric distortion; the defaults change nothing."""

    brightness: float = 0.0  # levels that are added
    contrast: float = 1.0
    saturation: float = 1.0
    hue: float = 0.0  # degrees
    contrast_first: bool = True  # or after saturation and hue

    def __call__(self, image: Tensor) -> Tensor:
        """Float [3, H, W] of 0 to 255, the same again."""
        image = image + self.brightness
        if self.contrast_first:
            image = image * self.contrast
        if self.saturation != 1 or self.hue:
            image = shift_colours(image.clamp(0, 255), self.saturation, self.hue)
        if not self.contrast_first:
            image = image * self.contrast
        return image.clamp(0, 255)


def random_colours(rng: random.Random) -> Colours:
    """Each distortion in every second image."""

    def sometimes(low: float, high: float, otherwise: float) -> float:
        number, wanted = rng.uniform(low, high), rng.random() < 0.5
        return number if wanted else otherwise

    return Colours(
        sometimes(-BRIGHTNESS, BRIGHTNESS, 0.0),
        sometimes(*CONTRAST, 1.0),
        sometimes(*SATURATION, 1.0),
        sometimes(-HUE, HUE, 0.0),
        rng.random() < 0.5,
    )


def shift_colours(image: Tensor, saturation: float, hue: float) -> Tensor:
    """Saturation times a factor and hue turned by degrees, in HSV; grey stays grey.

    With value v, chroma c and hue h in sixths of the circle, a channel n = 5, 3, 1 (red, green, blue) is
    v - c·max(0, min(k, 4 - k, 1)), k = (n + h) mod 6 (Smith, 1978, written by channel).
    """
    value, chroma = image.amax(0), image.amax(0) - image.amin(0)
    share = chroma / value.clamp(min=1e-6)
    new_chroma = (share * saturation).clamp(max=1.0) * value
    if not hue:
        return value - (value - image) * (new_chroma / chroma.clamp(min=1e-6))
    red, green, blue = image
    safe = chroma.clamp(min=1e-6)
    sixth = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    k = (torch.tensor([5.0, 3.0, 1.0]).view(3, 1, 1) + sixth + hue / 60).remainder(6)
    return value - new_chroma * torch.minimum(k, 4 - k).clamp(0, 1)


def placed(edges: tuple[float, float], pixels: int, size: int) -> tuple[int, int, float, float]:
    """Along one side: which pixels of the view lie in the image, and what they show of it, in its pixels.

    Args:
        edges: of the window along this side, as shares of the image.
        pixels: of the image along this side.
        size: of the view.
    """
    start, end = edges[0] * pixels, edges[1] * pixels
    scale = (end - start) / size  # pixels of the image in one of the view
    first = min(max(0, math.ceil(-start / scale - 1e-6)), size - 1)
    last = max(min(size, math.floor((pixels - start) / scale + 1e-6)), first + 1)
    low, high = (min(max(start + at * scale, 0.0), float(pixels)) for at in (first, last))
    if high - low < 1e-3:  # less than a pixel of the view is image: any of it will do
        low, high = min(low, pixels - 1.0), min(low, pixels - 1.0) + 1.0
    return first, last, low, high


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
