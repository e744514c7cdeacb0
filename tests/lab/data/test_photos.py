"""Files of every kind become RGB; the crops follow torchvision's rules."""

import math
import os
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from gaf.lab.data import photos
from gaf.lab.data.augment import draws, uniform
from tests.memory import MEGABYTE, at_most


@pytest.fixture(scope="module")
def photo(data_dir):
    path = sorted((data_dir / "imagenette-subset/train/n03888257").iterdir())[0]
    return Image.open(path).convert("RGB")


def difference(a: Image.Image, b: Image.Image) -> float:
    return float(np.abs(np.asarray(a, np.float32) - np.asarray(b, np.float32)).mean())


# mode and file kind -> the largest mean difference from the original, in grey levels (observed in brackets)
KINDS = {
    ("RGB", "png"): 0.0,
    ("RGBA", "png"): 0.0,
    ("RGBA", "webp"): 10.0,  # lossy [1.7]
    ("P", "png"): 20.0,  # 256 colours
    ("P", "gif"): 20.0,
    ("CMYK", "jpg"): 10.0,
    ("CMYK", "tiff"): 1.0,
    ("YCbCr", "tiff"): 2.0,
    ("RGB", "jpg"): 10.0,
    ("RGB", "bmp"): 0.0,
    ("RGB", "ppm"): 0.0,
}


@pytest.mark.parametrize(("kind", "most"), KINDS.items(), ids=map("-".join, KINDS))
def test_colours_survive(photo, tmp_path, kind, most):
    mode, suffix = kind
    path = tmp_path / f"x.{suffix}"
    photo.convert(mode).save(path)
    found = photos.decode(path)
    assert found.mode == "RGB"
    assert difference(found, photo) <= most


@pytest.mark.parametrize("suffix", ["png", "jpg", "pgm", "tif"])
def test_grayscale_is_repeated(photo, tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    gray = photo.convert("L")
    gray.save(path)
    found = np.asarray(photos.decode(path))
    assert (found[..., 0] == found[..., 1]).all()
    assert (found[..., 0] == found[..., 2]).all()
    assert np.abs(found[..., 0].astype(float) - np.asarray(gray)).mean() < 3


@pytest.mark.parametrize("mode", ["LA", "1", "P with transparency"])
def test_other_modes(photo, tmp_path, mode):
    path = tmp_path / "x.png"
    if mode == "P with transparency":  # as bytes, one for each colour: Pillow would warn
        photo.convert("P").save(path, transparency=bytes(range(256)))
    else:
        photo.convert(mode).save(path)
    assert photos.decode(path).mode == "RGB"


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bits_keep_their_brightness(photo, tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    gray = np.asarray(photo.convert("L"))
    Image.fromarray(gray.astype(np.uint16) * 257).save(path)
    with Image.open(path) as image:
        assert image.mode.startswith("I;16")
    assert np.abs(np.asarray(photos.decode(path))[..., 1].astype(int) - gray).max() <= 1


def test_32_bits_are_refused(photo, tmp_path):
    for dtype in (np.int32, np.float32):
        path = tmp_path / "x.tiff"
        Image.fromarray(np.asarray(photo.convert("L")).astype(dtype)).save(path)
        with pytest.raises(ValueError, match="32 bits"):
            photos.decode(path)


def png_of(width, height):
    """A PNG that says of itself to be so large, a few bytes long."""

    def chunk(kind, content):
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def tiff_of(tile):
    """A TIFF of 100 x 100 in one tile of this width and height, a few bytes long."""
    content = zlib.compress(bytes(100))
    entries = {256: 100, 257: 100, 258: 8, 259: 8, 262: 1, 277: 1, 322: tile, 323: tile, 324: 8}
    entries[325] = len(content)
    fields = b"".join(struct.pack("<HHII", key, 4, 1, value) for key, value in entries.items())
    start = struct.pack("<4sI", b"II*\0", 8 + len(content))
    return start + content + struct.pack("<H", len(entries)) + fields + bytes(4)


LARGE = {
    "png": lambda path: path.write_bytes(png_of(13_000, 13_000)),
    "bmp": lambda path: path.write_bytes(
        struct.pack("<2sIIIIiiHHIIiiII", b"BM", 54, 0, 54, 40, 13_000, 13_000, 1, 24, 0, *(0,) * 5)
    ),
    "ppm": lambda path: path.write_bytes(b"P6 13000 13000 255\n"),
    "gif": lambda path: path.write_bytes(
        b"GIF89a"
        + struct.pack("<HH", 13_000, 13_000)
        + b"\0\0\0,"
        + bytes(4)
        + b"\x01\0\x01\0\0\x02\0;"
    ),
    "tiff": lambda path: path.write_bytes(tiff_of(50_000)),
}


@pytest.mark.parametrize("suffix", LARGE)
def test_an_image_of_too_many_pixels_is_not_decoded(suffix, tmp_path):
    path = tmp_path / f"x.{suffix}"
    LARGE[suffix](path)
    with (
        at_most(50 * MEGABYTE),
        pytest.raises(ValueError, match=r"\d{5} x \d{5} pixels, more than"),
    ):
        photos.decode(path)


def test_an_image_that_never_ends_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "x.png")
    with pytest.raises(ValueError, match="it is no file"):
        photos.decode(tmp_path / "x.png")


def numbers(count):
    return uniform(draws(0, 0, torch.arange(count), photos.NUMBERS)).tolist()


@pytest.mark.parametrize("size", [(500, 375), (224, 224), (33, 1000), (1, 1), (2, 5)])
def test_crops_stay_in_the_image_and_in_their_range(size):
    width, height = size
    for each in numbers(500):
        left, top, w, h = photos.random_box(width, height, each)
        assert 0 <= left <= left + w <= width
        assert 0 <= top <= top + h <= height
        assert min(w, h) > 0
        if min(size) > 100:
            assert 0.07 < w * h / (width * height) <= 1
            assert 0.74 < w / h < 1.35


def test_crops_have_the_distribution_of_the_rule():
    boxes = np.array([photos.random_box(1000, 1000, each) for each in numbers(4000)])
    area = boxes[:, 2] * boxes[:, 3] / 1e6
    ratio = np.log(boxes[:, 2] / boxes[:, 3])
    # a try that does not fit is drawn again, so large areas are rarer than under a uniform law, mean 0.54
    assert 0.46 < area.mean() < 0.50
    assert abs(ratio.mean()) < 0.01
    assert abs(ratio.std() - math.log(16 / 9) / math.sqrt(12)) < 0.02
    assert np.corrcoef(boxes[:, 0], boxes[:, 1])[0, 1] < 0.6  # both small where the crop is large


def test_a_crop_that_never_fits_is_the_centre():
    assert photos.random_box(1000, 10, [0.999] * photos.NUMBERS) == (493, 0, 13, 10)
    assert photos.random_box(10, 1000, [0.999] * photos.NUMBERS) == (0, 493, 10, 13)


def test_half_of_the_views_are_mirrored(photo):
    plain = photos.training_view(photo, 64, [*[0.5] * 40, 0.5])
    mirrored = photos.training_view(photo, 64, [*[0.5] * 40, 0.49])
    assert difference(mirrored, plain.transpose(Image.Transpose.FLIP_LEFT_RIGHT)) == 0
    assert abs(np.mean([each[-1] < 0.5 for each in numbers(4000)]) - 0.5) < 0.04


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (256, 256), (30, 40), (1000, 3)])
def test_validation_takes_the_centre(size):
    image = Image.new("RGB", size)
    image.putpixel((size[0] // 2, size[1] // 2), (255, 255, 255))
    view = photos.validation_view(image, 224)
    assert view.size == (224, 224)
    spot = np.unravel_index(np.asarray(view)[..., 0].argmax(), (224, 224))
    assert abs(spot[0] - 112) <= 224 // min(size) + 2
    assert abs(spot[1] - 112) <= 224 // min(size) + 2


@pytest.mark.parametrize("size", [(1, 60_000), (60_000, 1), (3, 40_000)])
def test_a_very_long_image_does_not_fill_the_memory(size):
    """Resized whole, a line of 60,000 pixels would have 256 x 15,360,000 of them."""
    image = Image.new("RGB", size, (10, 200, 30))
    view = photos.validation_view(image, 224)
    assert view.size == (224, 224)
    assert view.getpixel((100, 100)) == (10, 200, 30)


def test_validation_at_256_is_a_plain_crop():
    pixels = np.random.default_rng(0).integers(0, 256, (256, 256, 3), np.uint8)
    view = photos.validation_view(Image.fromarray(pixels), 224)
    assert (np.asarray(view) == pixels[16:240, 16:240]).all()


def test_tensor_is_channels_first(photo):
    found = photos.tensor(photo)
    assert torch.equal(found, torch.from_numpy(np.array(photo)).permute(2, 0, 1))
