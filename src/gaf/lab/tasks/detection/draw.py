"""Boxes and names on a picture, by Pillow alone."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from gaf.lab.data.names import VOC
from gaf.lab.tasks.detection.trained import Found

GOLDEN = 0.618034  # of the circle of hues from one class to the next: neighbours look different


def colour(name: str) -> tuple[int, int, int]:
    """Of a class, always the same; dark enough for white letters."""
    number = VOC.index(name)
    red, green, blue = colorsys.hls_to_rgb(number * GOLDEN % 1.0, 0.38, 0.85)
    return round(255 * red), round(255 * green), round(255 * blue)


def draw(image: Image.Image, found: Sequence[Found]) -> Image.Image:
    """A copy of the image with a frame and a label for each detection, the surest on top."""
    picture = image.copy()
    pen = ImageDraw.Draw(picture)
    line = max(2, round(min(image.size) / 150))
    font = ImageFont.load_default(size=max(12, round(min(image.size) / 25)))
    for each in sorted(found, key=lambda one: one.score):
        left, top, right, bottom = each.box
        ink = colour(each.name)
        pen.rectangle(
            (left, top, max(left, right - 1), max(top, bottom - 1)), outline=ink, width=line
        )
        text = f"{each.name} {each.score:.2f}"
        _, _, wide, high = pen.textbbox((0, 0), text, font=font)
        x = max(0.0, min(left, image.width - wide - 2 * line))
        y = top - high - 2 * line if top >= high + 2 * line else top  # above the box, or in it
        pen.rectangle((x, y, x + wide + 2 * line, y + high + 2 * line), fill=ink)
        pen.text((x + line, y + line // 2), text, fill="white", font=font)
    return picture
