"""Text as windows of characters: what a model reads, and the same one character further on, to be guessed.

The first nine tenths of a file are to train on, the rest is the test. Windows have one length and do not
overlap, so an epoch shows each character once. To train, each window begins somewhere in the stretch that is
its own, drawn anew in each epoch: otherwise the same characters would always lack the same context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gaf.lab.data.augment import below, draws
from gaf.lab.data.files import DamagedFile, DataError, read_file
from gaf.lab.data.layouts import Dataset, Options

SIZE = 64  # characters of a window
TRAIN = 0.9  # of the text


class TextSource:
    """Windows of a text that lives on the device as numbers.

    Args:
        name: the name it was loaded by.
        codes: the text, each character as its place among ``classes``.
        classes: the characters, in order.
        fingerprint: checksum of the file.
        size: characters of a window.
        limit: how many windows to take at most; unset: all.
        augment: whether a window begins at a random place of its stretch.
    """

    def __init__(
        self,
        name: str,
        codes: Tensor,
        classes: Sequence[str],
        fingerprint: Mapping[str, str],
        *,
        size: int = SIZE,
        limit: int | None = None,
        augment: bool = False,
    ) -> None:
        self.name, self.codes, self.augment = name, codes, augment
        self.classes, self.shape, self.fingerprint = tuple(classes), (size,), dict(fingerprint)
        windows = (len(codes) - 1) // size  # the last character is a target only
        self.windows = windows if limit is None else min(windows, limit)

    def __len__(self) -> int:
        return self.windows

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Characters int64 [B, size] and those that follow each of them, of the same shape."""
        (size,) = self.shape
        self.codes = self.codes.to(device)
        along = torch.arange(size + 1, device=device)
        for batch in indices:
            index = batch.to(device)
            start = index * size
            if self.augment:
                start = start + below(draws(seed, epoch, index, 1)[:, 0], size)
                start = start.clamp(max=len(self.codes) - 1 - size)
            window = self.codes[start[:, None] + along]
            yield window[:, :-1], window[:, 1:]


@dataclass(frozen=True)
class TextDataset(Dataset):
    """One text file; its characters are the classes."""

    def open(self, split: str, root: Path, options: Options) -> TextSource:
        layout, folder = self.place(root)
        (path,) = layout.paths(folder, "text")
        codes, classes, digest = read(path)
        cut = int(TRAIN * len(codes))
        size = SIZE if options.size is None else options.size
        if len(codes) - cut <= size:
            raise DataError(
                f"{path} has {len(codes)} characters, too few: a tenth of it has to hold a window of {size} "
                "and one more; use a longer text or a smaller size"
            )
        return TextSource(
            self.name,
            codes[:cut] if split == "train" else codes[cut:],
            classes,
            {path.name: digest},
            size=size,
            limit=options.limit,
            augment=split == "train" if options.augment is None else options.augment,
        )


def read(path: Path) -> tuple[Tensor, tuple[str, ...], str]:
    """The text as places among its own characters in order, those characters, and the file's checksum."""
    content, digest = read_file(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFile(f"{path} is no UTF-8 text: byte {error.start} is not") from None
    # an empty buffer has no tensor
    points = torch.frombuffer(
        bytearray(text.encode("utf-32-le")) or bytearray(4), dtype=torch.int32
    )
    characters, codes = points[: len(text)].unique(return_inverse=True)
    return codes, tuple(map(chr, characters.tolist())), digest
