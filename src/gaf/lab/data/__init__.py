"""The data that experiments train on: by name, from disk, as sources of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gaf.lab.data import catalog
from gaf.lab.data.files import DataError, DatasetMissing
from gaf.lab.data.imagefolder import FolderSource
from gaf.lab.data.layouts import SPLITS, Options, at_home, default_root
from gaf.lab.data.sources import Source, Subset, TensorSource

__all__ = [
    "DataError",
    "DatasetMissing",
    "FolderSource",
    "Source",
    "Subset",
    "TensorSource",
    "load",
    "stand_in",
    "used",
]


def load(
    name: str,
    split: str,
    *,
    root: str | Path | None = None,
    augment: bool | None = None,
    limit: int | None = None,
    size: int | None = None,
    workers: int = 2,
    strict: bool = False,
) -> Source:
    """The samples of one split of a dataset.

    Args:
        name: of the catalog (``gaf data list``), or ``imagefolder:PATH`` for any folder with ``train`` and
            ``val`` (or ``test``) and in them a folder for each class.
        split: ``train`` or ``test``.
        root: the folder with the datasets; unset: the one GAF_DATA names, else the user's cache.
        augment: random crops and flips; unset: for train only.
        limit: take at most so many samples, as many of each class as there can be.
        size: side of the images from image folders, unset: 224; characters of a window of text, unset: 64.
        workers: processes that read image folders; 0: none, the training waits for each batch.
        strict: whether a broken image ends the training; otherwise it is named, counted and replaced.

    Raises:
        DatasetMissing: it is not there; the message holds the command that gets it.
        DataError: it is there and cannot be used.

    Example:
        >>> digits = load("digits", "test", limit=100)
        >>> len(digits), digits.shape, digits.classes[:3]
        (100, (1, 8, 8), ('0', '1', '2'))
    """
    if split not in SPLITS:
        raise DataError(f"the split is 'train' or 'test', not {split!r}")
    for what, number, least in (("limit", limit, 1), ("size", size, 1), ("workers", workers, 0)):
        if number is not None and (type(number) is not int or number < least):
            raise DataError(f"{what} is a whole number, at least {least}, not {number!r}")
    for what, choice in (("augment", augment), ("strict", strict)):
        if choice not in (None, True, False):
            raise DataError(f"{what} is true or false, not {choice!r}")
    options = Options(augment, limit, size, workers, strict)
    return catalog.find(name).open(split, _folder(root), options)


def stand_in(name: str, root: str | Path | None = None) -> str:
    """A line for whoever trains on a subset, in the place of the whole dataset; else empty.

    Args:
        name: of the dataset.
        root: the folder with the datasets, as in :func:`load`.
    """
    dataset, folder = catalog.find(name), _folder(root)
    subset = dataset.subset(folder)
    if subset is None:
        return ""
    whole = f"{dataset.counts['train']:,} training samples"
    return f"{name} ({whole}) is not in {folder}: the subset in {subset} takes its place"


def used(name: str, **options: Any) -> str:
    """The samples of a dataset that there are to train and to test on, in words.

    Args:
        name: of the dataset.
        options: as in :func:`load`.

    Example:
        >>> used("digits", limit=100)
        'digits, 100 training and 100 test samples'
    """
    dataset, root = catalog.find(name), _folder(options.get("root"))
    what = name
    if dataset.subset(root) is not None:
        layout = dataset.place(root)[0].name
        what = f"a subset of {name} ({layout})"
    train, test = (len(load(name, split, **options)) for split in SPLITS)
    return f"{what}, {train:,} training and {test:,} test samples"


def _folder(root: str | Path | None) -> Path:
    if root is not None and not isinstance(root, str | Path):
        raise DataError(f"root is the path of a folder, not {root!r}")
    return default_root() if root is None else at_home(root)
