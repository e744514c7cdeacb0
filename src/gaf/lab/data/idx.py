"""IDX, the format of MNIST and Fashion-MNIST, gzipped or not: 0, 0, type, number of axes, sizes, bytes."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gaf.lab.data.cifar import checked
from gaf.lab.data.errors import DamagedFile
from gaf.lab.data.files import read as read_file
from gaf.lab.data.sources import ImageRecords

BYTES = 8  # the type code of uint8, the only one these datasets use
LARGEST = 1 << 28  # bytes; MNIST's training images are 47 MB


def read(paths: Sequence[Path], *, classes: int) -> ImageRecords:
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
            if max(size, *shape) > LARGEST:  # an axis too: others may be 0
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
