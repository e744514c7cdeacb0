"""Images in a folder for each class, too many for memory.

They are listed once; worker processes decode and cut them, a few batches ahead of the training.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from gaf.lab.data.augment import draws, scale_and_shift, uniform
from gaf.lab.data.files import DamagedFile, DataError, DatasetMissing, reason
from gaf.lab.data.sources import read_ahead

# of names in any case
EXTENSIONS = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
)
SPLIT_FOLDERS = {"train": ("train",), "test": ("val", "test")}


@dataclass(frozen=True)
class FolderListing:
    """Images in the order of their classes and names; hidden files and other kinds of file are left out."""

    folder: Path
    classes: tuple[str, ...]
    paths: tuple[str, ...]  # under the folder
    targets: Tensor  # int64

    def fingerprint(self) -> str:
        """How many images there are, and a checksum of their names and sizes: not of their contents."""
        digest = hashlib.sha256()
        for path in self.paths:
            try:
                size = os.stat(self.folder / path).st_size
            except OSError:  # a link to nothing: an image that will be found broken
                size = -1
            digest.update(os.fsencode(path) + b"\0%d\0" % size)
        return f"{len(self.paths)} images, names and sizes {digest.hexdigest()}"


def split_folder(folder: Path, split: str) -> Path:
    """The folder of a split: ``train``; ``val`` or ``test``."""
    for name in SPLIT_FOLDERS[split]:
        if (folder / name).is_dir():
            return folder / name
    names = " nor ".join(SPLIT_FOLDERS[split])
    raise DatasetMissing(
        f"{folder} has no folder {names}: put the images under {folder}/train/CLASS and {folder}/val/CLASS"
    )


def scan(folder: Path, split: str) -> FolderListing:
    """All images of a split; the classes are the folders of ``train``, in the order of their names."""
    train, here = split_folder(folder, "train"), split_folder(folder, split)
    try:
        classes, present = _folders(train), _folders(here)
        listed = [(name, tuple(_images(here, name, set()))) for name in present]
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise DataError(f"{here} has too many folders in folders: make it flatter") from None
    if strange := sorted(set(present) - set(classes)):
        raise DataError(f"{here} has the class {strange[0]!r}, which {train} does not have")
    empty = [name for name, paths in listed if not paths]
    if empty and split == "train":
        raise DataError(f"there is no image in {here / empty[0]}: remove the folder or fill it")
    number = {name: i for i, name in enumerate(classes)}
    targets = [number[name] for name, paths in listed for _ in paths]
    if not targets:
        raise DataError(f"there is no image in the folders of {here}")
    paths = tuple(path for _, of_class in listed for path in of_class)
    return FolderListing(here, tuple(classes), paths, torch.tensor(targets))


def is_image(name: str) -> bool:
    """Whether a file counts, by its name; macOS leaves hidden ``._x.jpg`` that are no images."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in EXTENSIONS


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        listed = list(entries)
    names = sorted(
        entry.name for entry in listed if entry.is_dir() and not entry.name.startswith(".")
    )
    if not names:
        loose = any(is_image(entry.name) for entry in listed)
        state = "images and no folders" if loose else "no folders"
        raise DataError(f"{folder} has {state}: each class needs a folder with its images")
    return names


def _images(folder: Path, name: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    """The images in a folder and below, sorted; a folder that links lead to again is not read again."""
    about = os.stat(folder / name)
    here = (about.st_dev, about.st_ino)
    if here in seen:
        return
    seen.add(here)
    with os.scandir(folder / name) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            if not entry.name.startswith("."):
                yield from _images(folder, path, seen)
        elif is_image(entry.name) and (entry.is_file() or entry.is_symlink()):
            yield path  # a link to nothing too, which will be named as broken


SIZE = 224
# Of ImageNet's training images; what weights trained on it expect.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
GIVE_UP = 100  # unreadable images in a row: the disk is gone rather than a file broken


class BrokenImage(UserWarning):
    """An image that cannot be read; another one takes its place."""


class _ImageBatch(NamedTuple):
    images: Tensor  # uint8 [B, 3, size, size]: a quarter of the floats to pass between processes
    targets: Tensor
    broken: dict[str, str]  # path -> reason
    hopeless: bool


@dataclass(frozen=True)
class _FolderReader(Dataset[_ImageBatch]):
    """Batches by their indices; what a worker gets."""

    listing: FolderListing
    size: int
    augment: bool
    seed: int
    epoch: int

    def __getitem__(self, index: list[int]) -> _ImageBatch:
        from gaf.lab.data import photos

        numbers = uniform(draws(self.seed, self.epoch, torch.tensor(index), photos.NUMBERS))
        images = torch.empty(len(index), 3, self.size, self.size, dtype=torch.uint8)
        targets = torch.empty(len(index), dtype=torch.int64)
        broken: dict[str, str] = {}
        for row, wanted in enumerate(index):
            for step in range(min(GIVE_UP, len(self.listing.paths))):
                sample = (wanted + step) % len(self.listing.paths)
                path = self.listing.folder / self.listing.paths[sample]
                try:
                    image = photos.decode(path)
                except Exception as error:  # a decoder can fail in any way on a damaged file
                    # a few words; Pillow repeats the path
                    broken[str(path)] = " ".join(
                        reason(error).replace(f" {str(path)!r}", "").split()
                    )
                    continue
                if self.augment:
                    view = photos.training_view(image, self.size, numbers[row].tolist())
                else:
                    view = photos.validation_view(image, self.size)
                images[row], targets[row] = photos.tensor(view), self.listing.targets[sample]
                break
            else:
                return _ImageBatch(images, targets, broken, hopeless=True)
        return _ImageBatch(images, targets, broken, hopeless=False)


class FolderSource:
    """The images of a folder, read when they are needed.

    A broken image is replaced by the next readable one in the order of the listing (nearly always of the same
    class), with that one's label, so that batches keep their size. It is named once in a warning and kept in
    ``broken``. In an evaluation, the neighbour of a broken image counts twice.

    Args:
        name: the name it was loaded by.
        listing: the images.
        size: side of the square that the model sees.
        augment: random parts and flips, or the centre.
        workers: processes; 0: this one.
        strict: whether a broken image is an error.
    """

    def __init__(
        self,
        name: str,
        listing: FolderListing,
        *,
        size: int = SIZE,
        augment: bool = False,
        workers: int = 2,
        strict: bool = False,
    ) -> None:
        self.name, self.listing, self.augment = name, listing, augment
        self.workers, self.strict = workers, strict
        self.classes = listing.classes
        self.shape = (3, size, size)
        self.broken: dict[str, str] = {}  # path -> reason, of the images met so far

    def __len__(self) -> int:
        return len(self.listing.paths)

    @property
    def targets(self) -> Tensor:
        """The label of each image, int64 [N]."""
        return torch.as_tensor(self.listing.targets)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """Of names and sizes: reading all of ImageNet for a checksum would take longer than a small run."""
        return {f"{self.listing.folder.name}/": self.listing.fingerprint()}

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs float32 [B, 3, size, size], targets int64 [B], normalised on the device."""
        for batch in indices:
            if len(batch) and not 0 <= int(batch.min()) <= int(batch.max()) < len(self):
                raise IndexError(
                    f"{self.name} has no sample {int(batch.max())} (it has {len(self)})"
                )
        scale, shift = scale_and_shift(MEAN, STD, 255.0, device)
        reader = _FolderReader(self.listing, self.shape[1], self.augment, seed, epoch)
        pin = device.type == "cuda"
        # without a name: the traceback of an error would keep it, and with it the workers
        for images, targets, broken, hopeless in read_ahead(reader, indices, self.workers, pin=pin):
            self._note(broken, hopeless)
            inputs = images.to(device, non_blocking=True).float().mul_(scale).add_(shift)
            yield inputs, targets.to(device, non_blocking=True)

    def _note(self, broken: dict[str, str], hopeless: bool) -> None:
        for path, why in broken.items():
            if self.strict:
                raise DamagedFile(f"{path} is broken ({why}): replace or remove it")
            if path not in self.broken:
                self.broken[path] = why
                message = (
                    f"{path} is broken ({why}), the next image takes its place; broken so far: "
                )
                warnings.warn(BrokenImage(f"{message}{len(self.broken)}"), stacklevel=3)
        if hopeless:
            path, why = next(iter(broken.items()))
            raise DamagedFile(f"no image can be read from {path} on ({why})")
