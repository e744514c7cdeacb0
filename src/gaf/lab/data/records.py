"""Small images and their labels, from the formats they are published in.

CIFAR-10 and CIFAR-100 have two layouts. A binary record is its labels, one byte each (CIFAR-100: coarse, then
fine), and 3 x 32 x 32 bytes, red, green, blue. A pickle is a dictionary with the same bytes under ``data``.
IDX, the format of MNIST and Fashion-MNIST, gzipped or not, is 0, 0, type, number of axes, sizes, bytes.
scikit-learn's digits, 1797 images of 8 x 8, come with the package: a first run needs no download.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gaf.lab.data import pickles
from gaf.lab.data.files import DamagedFile, read_file
from gaf.lab.data.sources import ImageRecords
from gaf.lab.theory.learning import digits

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32


def read_binary(paths: Sequence[Path], *, labels: int, classes: int) -> ImageRecords:
    """Binary records; the last of the ``labels`` bytes is the one to learn."""
    images, targets, fingerprint = [], [], {}
    for path in paths:
        content, fingerprint[path.name] = read_file(path)
        size = labels + PIXELS
        if not content or len(content) % size:
            raise DamagedFile(
                f"{path} has {len(content)} bytes, not a whole number of records of {size}: "
                "the file is damaged or of another layout"
            )
        records = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, size)
        images.append(records[:, labels:].reshape(-1, *SHAPE))
        targets.append(checked(records[:, labels - 1], classes, path))
    return ImageRecords(torch.cat(images), torch.cat(targets), fingerprint)


def checked(targets: Tensor, classes: int, path: Path) -> Tensor:
    """The labels as int64, each below the number of classes."""
    wrong = ((targets < 0) | (targets >= classes)).nonzero()
    if len(wrong):
        first = int(wrong[0])
        raise DamagedFile(
            f"{path}: record {first} has label {int(targets[first])}, beyond the {classes} classes: "
            "the file is damaged or of another dataset"
        )
    return targets.long()


def read_python(paths: Sequence[Path], *, key: str, classes: int) -> ImageRecords:
    """Python pickles; ``key`` names the labels (``labels``, ``fine_labels``)."""
    images, targets, fingerprint = [], [], {}
    for path in paths:
        content, fingerprint[path.name] = read_file(path)
        data, labels = pickles.loads(content, path, "data", key)
        if not isinstance(data, Tensor) or data.ndim != 2 or data.shape[1] != PIXELS:
            raise DamagedFile(f"{path} holds no images of {PIXELS} bytes under 'data'")
        listed = isinstance(labels, list) and all(
            type(label) is int and abs(label) < 1 << 31 for label in labels
        )
        if not listed or len(labels) != len(data):
            raise DamagedFile(f"{path} does not hold {len(data)} labels under {key!r}")
        images.append(data.view(-1, *SHAPE))
        targets.append(checked(torch.tensor(labels), classes, path))
    return ImageRecords(torch.cat(images), torch.cat(targets), fingerprint)


BYTES = 8  # the type code of uint8, the only one these datasets use
LARGEST_ARRAY = 1 << 28  # bytes; MNIST's training images are 47 MB


def read_idx(paths: Sequence[Path], *, classes: int) -> ImageRecords:
    """Images and labels, from a pair of files."""
    images_path, labels_path = paths
    images, images_digest = read_array(images_path, axes=3)
    labels, labels_digest = read_array(labels_path, axes=1)
    if len(images) != len(labels):
        raise DamagedFile(
            f"{images_path} has {len(images)} images and {labels_path} {len(labels)} labels: "
            "they do not belong together"
        )
    if not len(images):
        raise DamagedFile(f"{images_path} holds no image")
    fingerprint = {images_path.name: images_digest, labels_path.name: labels_digest}
    return ImageRecords(images[:, None], checked(labels, classes, labels_path), fingerprint)


def read_array(path: Path, *, axes: int) -> tuple[Tensor, str]:
    """The array in a file, and the sha256 of the file as it is."""
    content, digest = read_file(path)
    zipped = content[:2] == b"\x1f\x8b"
    try:
        with gzip.open(io.BytesIO(content)) if zipped else io.BytesIO(content) as stream:
            head = stream.read(4 + 4 * axes)
            if head[:4] != bytes((0, 0, BYTES, axes)) or len(head) < 4 + 4 * axes:
                raise DamagedFile(f"{path} is not an IDX file of bytes with {axes} axes")
            shape = struct.unpack(f">{axes}I", head[4:])
            size = math.prod(shape)
            if max(size, *shape) > LARGEST_ARRAY:  # an axis too: others may be 0
                sizes = " x ".join(map(str, shape))
                raise DamagedFile(f"{path} claims {sizes} bytes, more than any dataset here has")
            data = stream.read(size + 1)  # one more than there should be
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedFile(f"{path} is not a whole gzip file: {error}") from None
    if len(data) != size:
        more = "more" if len(data) > size else f"{len(data)}"
        raise DamagedFile(f"{path} should hold {size} bytes after its head and holds {more}")
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0)
    return flat.to(torch.uint8).view(shape), digest


EVERY = 5  # each fifth image is a test image: 1438 to train, 359 to test, all classes in both
DIGITS_PEAK = 16.0  # the images count from 0 to 16


def read_digits(split: str) -> ImageRecords:
    """The images of a split; the package knows none, so this one is ours."""
    pixels, targets = digits()
    images = (DIGITS_PEAK * pixels).to(torch.uint8).view(-1, 1, 8, 8)
    digest = hashlib.sha256(images.numpy().tobytes() + targets.numpy().tobytes()).hexdigest()
    is_test = torch.arange(len(targets)) % EVERY == EVERY - 1
    chosen = is_test if split == "test" else ~is_test
    return ImageRecords(images[chosen], targets[chosen], {"sklearn.datasets.load_digits": digest})
