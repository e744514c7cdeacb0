"""How a dataset lies on disk, where it comes from, and how a split of it is opened."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from gaf.lab.data.augment import CropFlip
from gaf.lab.data.download import LARGEST
from gaf.lab.data.files import DataError, DatasetMissing
from gaf.lab.data.imagefolder import SIZE, FolderSource, scan
from gaf.lab.data.sources import ImageRecords, Source, TensorSource

SPLITS = ("train", "test")


def at_home(path: str | Path) -> Path:
    """The path, with ~ as the home of the user."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise DataError(f"{path}: {error}") from None


def default_root() -> Path:
    """The folder that GAF_DATA names, else ``gaf/data`` in the user's cache."""
    if named := os.environ.get("GAF_DATA"):
        return at_home(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "gaf" / "data"


@dataclass(frozen=True)
class Download:
    """A file at its official address, with the checksum published for it.

    Args:
        url: the address.
        md5: the checksum.
        size: its bytes; 0 where they are not known.
    """

    url: str
    md5: str
    size: int = 0

    @property
    def largest(self) -> int:
        """The most bytes to take from a server: a tenth more than there should be."""
        return self.size + self.size // 10 or LARGEST

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Layout:
    """One way a dataset lies on disk.

    Args:
        name: what ``gaf data get --layout`` calls it.
        folders: where it may be, under the root; the first is where ``gaf data get`` puts it.
        files: of each split; a file may also be there gzipped, as ``name.gz``, if ``gzipped``.
        read: images and labels from the files of a split.
        downloads: what to get: archives with the folder in them, or the files themselves.
        unpacked: the most bytes that the archives may unpack to; 0 where there are none.
        md5: published checksums of the files themselves.
        gzipped: whether files may be gzipped.
        subsets: further folders to read from, where no whole dataset is there.
    """

    name: str
    folders: tuple[str, ...]
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: Callable[[Sequence[Path]], ImageRecords] | None = None
    downloads: tuple[Download, ...] = ()
    unpacked: int = 0
    md5: Mapping[str, str] = field(default_factory=dict)
    gzipped: bool = False
    subsets: tuple[str, ...] = ()

    def paths(self, folder: Path, split: str) -> list[Path]:
        """Where the files of a split are, or would be."""
        plain = [folder / name for name in self.files[split]]
        zipped = [path.with_name(f"{path.name}.gz") for path in plain]
        if not self.gzipped:
            return plain
        return [
            b if b.exists() and not a.exists() else a for a, b in zip(plain, zipped, strict=True)
        ]

    def missing(self, folder: Path) -> list[Path]:
        """The files that a folder lacks."""
        return [
            path for split in self.files for path in self.paths(folder, split) if not path.exists()
        ]


class Options(NamedTuple):
    """How to open a split; see :func:`gaf.lab.data.load`."""

    augment: bool | None = None
    limit: int | None = None
    size: int | None = None
    workers: int = 2
    strict: bool = False


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset before it is read.

    Args:
        name: what it is called on the command line.
        title: a line about it.
        layouts: the ways it may lie on disk, the preferred one first.
        counts: how many samples the whole dataset has.
        by_hand: how to get it, where it cannot be downloaded.
    """

    name: str
    title: str
    layouts: tuple[Layout, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    by_hand: str = ""

    def place(self, root: Path) -> tuple[Layout, Path]:
        """The layout and folder it is found in; the first that lacks no file."""
        whole = [(layout, folder) for layout in self.layouts for folder in layout.folders]
        parts = [(layout, folder) for layout in self.layouts for folder in layout.subsets]
        places = [(layout, root / name) for layout, name in whole + parts if (root / name).is_dir()]
        for layout, folder in places:
            if not layout.missing(folder):
                return layout, folder
        if places:
            layout, folder = places[0]
            names = ", ".join(path.name for path in layout.missing(folder))
            raise DatasetMissing(f"{folder} lacks {names}; {self.how_to_get(root)}")
        raise DatasetMissing(f"{self.name} is not in {root}; {self.how_to_get(root)}")

    def subset(self, root: Path) -> Path | None:
        """The folder of a subset that is read because the whole dataset is not there."""
        if not self.layouts:
            return None
        layout, folder = self.place(root)
        return folder if folder in [root / name for name in layout.subsets] else None

    def how_to_get(self, root: Path) -> str:
        """The end of a sentence about a dataset that is not there."""
        return self.by_hand.format(root=root) or f"get it with: gaf data get {self.name}"

    @abstractmethod
    def open(self, split: str, root: Path, options: Options) -> Source:
        """The samples of a split."""


@dataclass(frozen=True)
class TensorDataset(Dataset):
    """Small images, held whole in memory.

    Args:
        classes: what the labels stand for.
        mean: of each channel, as a share of ``peak``.
        std: likewise.
        peak: the byte that stands for 1.
        augment: what training does with the images, or None.
    """

    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    peak: float = 255.0
    augment: CropFlip | None = None

    def read(self, split: str, root: Path) -> ImageRecords:
        """All images and labels of a split."""
        layout, folder = self.place(root)
        assert layout.read is not None, f"{self.name} has no reader"
        return layout.read(layout.paths(folder, split))

    def open(self, split: str, root: Path, options: Options) -> TensorSource:
        if options.augment and self.augment is None:
            raise DataError(f"there is no augmentation for {self.name}: leave augment unset")
        if options.size is not None:
            raise DataError(f"the images of {self.name} have one size: leave size unset")
        wanted = split == "train" if options.augment is None else options.augment
        records = self.read(split, root)
        if options.limit is not None:
            chosen = balanced(records.targets, options.limit)
            records = ImageRecords(
                records.images[chosen], records.targets[chosen], records.fingerprint
            )
        return TensorSource(
            self.name,
            records,
            self.classes,
            mean=self.mean,
            std=self.std,
            peak=self.peak,
            augment=self.augment if wanted else None,
        )


@dataclass(frozen=True)
class FolderDataset(Dataset):
    """Images in a folder for each class, read as they are needed."""

    def open(self, split: str, root: Path, options: Options) -> FolderSource:
        listing = scan(self.place(root)[1], split)
        if options.limit is not None:
            chosen = balanced(listing.targets, options.limit)
            paths = tuple(listing.paths[i] for i in chosen.tolist())
            listing = replace(listing, paths=paths, targets=listing.targets[chosen])
        return FolderSource(
            self.name,
            listing,
            size=SIZE if options.size is None else options.size,
            augment=split == "train" if options.augment is None else options.augment,
            workers=options.workers,
            strict=options.strict,
        )


def balanced(targets: Tensor, limit: int) -> Tensor:
    """The indices of at most ``limit`` samples: the first of each class, the second of each, and so on.

    Example:
        >>> balanced(torch.tensor([0, 0, 0, 1, 1, 2]), 4)
        tensor([0, 1, 3, 5])
    """
    order = torch.argsort(targets, stable=True)
    sizes = torch.bincount(targets)
    first = torch.cumsum(sizes, 0) - sizes
    rank = torch.empty_like(targets)
    rank[order] = torch.arange(len(targets)) - first[targets[order]]
    chosen = torch.argsort(rank * len(sizes) + targets)[:limit]
    return chosen.sort().values
