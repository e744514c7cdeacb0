"""The images of PASCAL VOC with their objects: opened, decoded, checked. A task decides what it sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from gaf.lab.data import voc
from gaf.lab.data.files import DamagedFile, DataError
from gaf.lab.data.layouts import Dataset, Options
from gaf.lab.data.sources import read_ahead

if TYPE_CHECKING:
    from PIL.Image import Image


class VocImages:
    """The images of lists of VOC.

    Args:
        name: the name it was loaded by.
        listing: the images and their objects.
        augment: whether a training may change them.
        workers: processes that read them; 0: this one.
    """

    classes = voc.VOC

    def __init__(self, name: str, listing: voc.VocListing, *, augment: bool, workers: int) -> None:
        self.name, self.listing, self.augment, self.workers = name, listing, augment, workers
        self.fingerprint = {"lists and annotations": listing.checksum}

    def __len__(self) -> int:
        return len(self.listing.images)

    def problems(self, indices: Sequence[Tensor]) -> Iterator[list[str]]:
        """For each tensor of indices a sentence about every image in it that cannot be used."""
        return read_ahead(_Problems(self.listing), indices, self.workers)


@dataclass(frozen=True)
class _Problems(TorchDataset[list[str]]):
    """By the indices of a batch; what a worker gets."""

    listing: voc.VocListing

    def __getitem__(self, index: list[int]) -> list[str]:
        sentences = []
        for image in index:
            try:
                decoded(self.listing, image)
            except DamagedFile as error:
                sentences.append(str(error))
        return sentences


def decoded(listing: voc.VocListing, index: int) -> Image:
    """An image, if it has the size that its annotation says: that is looked at before any pixel."""
    from gaf.lab.data import photos

    path, annotated = listing.images[index], tuple(listing.sizes[index].tolist())
    width, height = voc.size_of(path)
    if (width, height) != annotated:
        raise DamagedFile(
            f"{path} is {width} x {height} pixels, its annotation says {annotated[0]} x {annotated[1]}"
        )
    try:
        return photos.decode(path)
    except Exception as error:  # a decoder can fail in any way on a damaged file
        raise DamagedFile(f"{path} is broken ({voc.why(error)}): replace it") from None


@dataclass(frozen=True)
class VocDataset(Dataset):
    """One or several years of VOC; the files of its layouts are the lists of images of each split."""

    def open(self, split: str, root: Path, options: Options) -> VocImages:
        if options.size is not None:
            raise DataError(
                f"a detector sees the images of {self.name} at its own size: leave size unset"
            )
        return VocImages(
            self.name,
            voc.scan(self.lists(split, root), options.limit),
            augment=split == "train" if options.augment is None else options.augment,
            workers=options.workers,
        )

    def lists(self, split: str, root: Path) -> list[Path]:
        """The files that list the images of a split."""
        layout, folder = self.place(root)
        return layout.paths(folder, split)
