"""CIFAR-10 and CIFAR-100 in their two official layouts: binary records and python pickles.

A binary record is its labels, one byte each (CIFAR-100: coarse, then fine), and 3 x 32 x 32 bytes, red,
green, blue. A pickle is a dictionary with the same bytes under ``data``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor

from gaf.lab.data import pickles
from gaf.lab.data.errors import DamagedFile
from gaf.lab.data.files import read
from gaf.lab.data.sources import ImageRecords

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32


def read_binary(paths: Sequence[Path], *, labels: int, classes: int) -> ImageRecords:
    """Binary records; the last of the ``labels`` bytes is the one to learn."""
    images, targets, fingerprint = [], [], {}
    for path in paths:
        content, fingerprint[path.name] = read(path)
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
        content, fingerprint[path.name] = read(path)
        data, labels = pickles.loads(content, path, "data", key)
        if not isinstance(data, Tensor) or data.ndim != 2 or data.shape[1] != PIXELS:
            raise DamagedFile(f"{path} holds no images of {PIXELS} bytes under 'data'")
        if not _are_labels(labels) or len(labels) != len(data):
            raise DamagedFile(f"{path} does not hold {len(data)} labels under {key!r}")
        images.append(data.view(-1, *SHAPE))
        targets.append(checked(torch.tensor(labels), classes, path))
    return ImageRecords(torch.cat(images), torch.cat(targets), fingerprint)


def _are_labels(labels: object) -> TypeGuard[list[int]]:
    return isinstance(labels, list) and all(type(x) is int and abs(x) < 1 << 31 for x in labels)
