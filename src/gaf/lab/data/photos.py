"""One image file as training or validation sees it: decoded by Pillow, cut and resized to a square.

The rules are those of ImageNet training since He et al. (2015), in the form that torchvision gave them, so
that accuracies can be compared.
"""

from __future__ import annotations

import math
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from PIL import Image, ImageOps, TiffImagePlugin
from torch import Tensor

from gaf.common.errors import GafError

AREA = (0.08, 1.0)  # of the image that a training crop covers
RATIO = (3 / 4, 4 / 3)  # its width over its height
TRIES = 10
NUMBERS = (
    4 * TRIES + 1
)  # random ones for an image: area, ratio, left, top of each try, and the flip
LONGEST = (
    16  # times the shorter side: what lies beyond is cut off before a validation image is resized
)
# What photographs come in. Pillow would read more, and run Ghostscript for PostScript that is called .jpg.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
PIXELS = 1 << 26  # of an image at most; the largest of ImageNet has 38 million
SHORT_SIDE = 256 / 224  # of a validation image, before its centre is cut out


def decode(path: Path, *, upright: bool = False) -> Image.Image:
    """The image in RGB; raises whatever Pillow raises where the file is broken.

    Grayscale is repeated, CMYK and palettes are converted, 16 bits are cut to 8, transparency is dropped, a
    rotation noted in EXIF is not applied: what torchvision does, except for 16 bits, which it clips to white.

    Args:
        path: of the file.
        upright: turn it as EXIF says, as whoever looks at it sees it; datasets are annotated as they are.
    """
    with _opened(path) as image:
        return to_rgb(ImageOps.exif_transpose(image) if upright else image)


def size(path: Path) -> tuple[int, int]:
    """Width and height as the beginning of the file tells them; raises as :func:`decode` does."""
    with _opened(path) as image:
        return image.size


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    with warnings.catch_warnings():  # such as damaged EXIF, which is not looked at
        warnings.simplefilter("ignore")
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise GafError("it is no file")  # a pipe would never end
        with Image.open(path, formats=FORMATS) as image:
            _check_size(image)
            yield image


def _check_size(image: Image.Image) -> None:
    """Before any pixel is decoded: a file of a few hundred bytes may speak of gigabytes of them."""
    sizes = [image.size]
    if isinstance(image, TiffImagePlugin.TiffImageFile):  # a tile may be larger than the image
        sizes.append((int(image.tag_v2.get(322, 0)), int(image.tag_v2.get(323, 0))))
    for width, height in sizes:
        if width * height > PIXELS:
            raise GafError(
                f"it has {width} x {height} pixels, more than the {PIXELS:,} that are read: make it smaller"
            )


def to_rgb(image: Image.Image) -> Image.Image:
    """The image in RGB."""
    if image.mode.startswith("I;16"):
        image = image.convert("I").point(lambda level: level * (1 / 256)).convert("L")
    elif image.mode in ("I", "F"):
        raise GafError("its pixels have 32 bits, of which nothing says what is white")
    elif image.mode == "P":
        image = image.convert("RGBA")  # a palette may hold transparent colours
    return image.convert("RGB")


def training_view(image: Image.Image, size: int, numbers: Sequence[float]) -> Image.Image:
    """A random part of the image, of random shape, resized to a square, mirrored at times."""
    left, top, width, height = random_box(image.width, image.height, numbers)
    part = image.crop((left, top, left + width, top + height))
    view = part.resize((size, size), Image.Resampling.BILINEAR)
    return view.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if numbers[-1] < 0.5 else view


def random_box(width: int, height: int, numbers: Sequence[float]) -> tuple[int, int, int, int]:
    """Left, top, width, height of a crop; the first of ten tries that fits, else the centre."""
    low, high = (math.log(ratio) for ratio in RATIO)
    for area, ratio, x, y in zip(*(numbers[i : 4 * TRIES : 4] for i in range(4)), strict=True):
        wanted = width * height * (AREA[0] + area * (AREA[1] - AREA[0]))
        shape = math.exp(low + ratio * (high - low))
        w, h = round(math.sqrt(wanted * shape)), round(math.sqrt(wanted / shape))
        if 0 < w <= width and 0 < h <= height:
            return int(x * (width - w + 1)), int(y * (height - h + 1)), w, h
    w, h = width, height
    if width < RATIO[0] * height:
        h = round(width / RATIO[0])
    elif width > RATIO[1] * height:
        w = round(height * RATIO[1])
    return (width - w) // 2, (height - h) // 2, w, h


def validation_view(image: Image.Image, size: int) -> Image.Image:
    """The centre of the image, after its shorter side is made a little longer than the square."""
    short = round(size * SHORT_SIDE)
    image = _without_far_ends(image)
    if image.width <= image.height:
        width, height = short, int(short * image.height / image.width)
    else:
        width, height = int(short * image.width / image.height), short
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))


def _without_far_ends(image: Image.Image) -> Image.Image:
    """The middle of a very long image: resized whole, a line of a few pixels would fill the memory."""
    long = LONGEST * min(image.size)
    if max(image.size) <= long:
        return image
    width, height = min(image.width, long), min(image.height, long)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def tensor(image: Image.Image) -> Tensor:
    """uint8 [3, H, W]; Pillow separates the channels faster than torch does."""
    planes = bytearray().join(image.tobytes("raw", channel) for channel in "RGB")
    return torch.frombuffer(planes, dtype=torch.uint8).view(3, image.height, image.width)
