"""The images of a folder with one folder for each class: which there are, and what they are called."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gaf.lab.data.errors import DataError, DatasetMissing

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
        found = hashlib.sha256()
        for path in self.paths:
            try:
                size = os.stat(self.folder / path).st_size
            except OSError:  # a link to nothing: an image that will be found broken
                size = -1
            found.update(os.fsencode(path) + b"\0%d\0" % size)
        return f"{len(self.paths)} images, names and sizes {found.hexdigest()}"


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
        classes, found = _folders(train), _folders(here)
        listed = [(name, tuple(_images(here, name, set()))) for name in found]
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise DataError(f"{here} has too many folders in folders: make it flatter") from None
    if strange := sorted(set(found) - set(classes)):
        raise DataError(f"{here} has the class {strange[0]!r}, which {train} does not have")
    empty = [name for name, paths in listed if not paths]
    if empty and split == "train":
        raise DataError(f"there is no image in {here / empty[0]}: remove the folder or fill it")
    number = {name: i for i, name in enumerate(classes)}
    targets = [number[name] for name, paths in listed for _ in paths]
    if not targets:
        raise DataError(f"there is no image in the folders of {here}")
    paths = tuple(path for _, each in listed for path in each)
    return FolderListing(here, tuple(classes), paths, torch.tensor(targets))


def is_image(name: str) -> bool:
    """Whether a file counts, by its name; macOS leaves hidden ``._x.jpg`` that are no images."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in EXTENSIONS


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        listed = list(entries)
    names = sorted(each.name for each in listed if each.is_dir() and not each.name.startswith("."))
    if not names:
        loose = any(is_image(each.name) for each in listed)
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
        listed = sorted(entries, key=lambda each: each.name)
    for each in listed:
        path = f"{name}/{each.name}"
        if each.is_dir():
            if not each.name.startswith("."):
                yield from _images(folder, path, seen)
        elif is_image(each.name) and (each.is_file() or each.is_symlink()):
            yield path  # a link to nothing too, which will be named as broken
