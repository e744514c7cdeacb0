"""Is what lies on disk the dataset? Sizes, records, labels and checksums where they are published."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from gaf.lab.data import voc
from gaf.lab.data.download import md5_of
from gaf.lab.data.files import DataError
from gaf.lab.data.imagefolder import BrokenImage, FolderSource, scan
from gaf.lab.data.layouts import SPLITS, Dataset, FolderDataset, Layout, Options, TensorDataset
from gaf.lab.data.text import TextDataset
from gaf.lab.data.voc_images import VocDataset, VocImages

Progress = Callable[[str, int, int], None]  # a split, images so far, images in all
BATCH = 64
THUMBNAIL = 32  # pixels: an image is checked by decoding it, what becomes of it does not matter


@dataclass(frozen=True)
class Split:
    """What was found of one split."""

    name: str
    samples: int
    published: int | None  # samples in the whole dataset
    classes: int  # with at least one sample


@dataclass(frozen=True)
class File:
    """A file and its checksum against the published one."""

    name: str
    size: int
    md5: str
    matches: bool | None  # None: no checksum is published for it


@dataclass
class DatasetFindings:
    """What a check has found; the dataset is good where there are no problems."""

    dataset: str
    layout: str = ""
    folder: str = ""
    splits: list[Split] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def subset(self) -> bool:
        """Whether there is less than was published."""
        return any(
            each.published is not None and each.samples < each.published for each in self.splits
        )

    @property
    def state(self) -> str:
        """In a word; readable: whole as far as can be seen, and not known to be the published data."""
        if self.problems:
            return "damaged"
        if self.subset:
            return "subset"
        known = all(each.published is not None for each in self.splits)
        differs = any(each.matches is False for each in self.files)
        return "complete" if known and not differs else "readable"


def check(dataset: Dataset, root: Path, progress: Progress, *, workers: int = 2) -> DatasetFindings:
    """Read all of a dataset and compare it with what is known of it; DatasetMissing where it is not there."""
    found = DatasetFindings(dataset.name)
    layout = None
    if dataset.layouts:
        layout, folder = dataset.place(root)
        found.layout, found.folder = layout.name, str(folder)
    for split in SPLITS:
        try:
            if isinstance(dataset, TensorDataset):
                _check_tensors(dataset, split, root, found)
            elif isinstance(dataset, FolderDataset):
                _check_folder(dataset, split, root, found, progress, workers)
            elif isinstance(dataset, VocDataset):
                _check_voc(dataset, split, root, found, progress, workers)
            elif isinstance(dataset, TextDataset):
                _check_text(dataset, split, root, found)
        except DataError as error:
            found.problems.append(str(error))
    if layout is not None:
        _check_files(layout, Path(found.folder), found)
    return found


def _check_tensors(dataset: TensorDataset, split: str, root: Path, found: DatasetFindings) -> None:
    targets = dataset.read(split, root).targets
    _count(dataset, split, targets, found)
    missing = len(dataset.classes) - found.splits[-1].classes
    if missing:
        found.problems.append(
            f"{split} has no sample of {missing} of its {len(dataset.classes)} classes"
        )


def _check_folder(
    dataset: FolderDataset,
    split: str,
    root: Path,
    found: DatasetFindings,
    progress: Progress,
    workers: int,
) -> None:
    listing = scan(dataset.place(root)[1], split)
    _count(dataset, split, listing.targets, found)
    source = FolderSource(dataset.name, listing, size=THUMBNAIL, workers=workers)
    batches = torch.arange(len(source)).split(BATCH)
    done = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BrokenImage)
        for images, _ in source.batches(batches, seed=0, epoch=0, device=torch.device("cpu")):
            done += len(images)
            progress(split, done, len(source))
    for path, reason in source.broken.items():
        found.problems.append(f"{path} is broken: {reason}")


def _check_voc(
    dataset: VocDataset,
    split: str,
    root: Path,
    found: DatasetFindings,
    progress: Progress,
    workers: int,
) -> None:
    """All annotations, and that each image is there, whole and of the size they say."""
    listing = voc.scan(dataset.lists(split, root), problems=found.problems)
    source = VocImages(dataset.name, listing, augment=False, workers=workers)
    published, classes = dataset.counts.get(split), len(listing.labels.unique())
    found.splits.append(Split(split, len(source), published, classes))
    done = 0
    batches = torch.arange(len(source)).split(BATCH) if len(source) else ()
    for batch, problems in zip(batches, source.problems(batches), strict=True):
        found.problems += problems
        done += len(batch)
        progress(split, done, len(source))


def _check_text(dataset: TextDataset, split: str, root: Path, found: DatasetFindings) -> None:
    source = dataset.open(split, root, Options())
    published = dataset.counts.get(split)
    found.splits.append(Split(split, len(source), published, len(source.classes)))


def _count(dataset: Dataset, split: str, targets: torch.Tensor, found: DatasetFindings) -> None:
    published = dataset.counts.get(split)
    found.splits.append(Split(split, len(targets), published, len(targets.unique())))
    if published is not None and len(targets) > published:
        found.problems.append(f"{split} has {len(targets)} samples, the dataset only {published}")


def _check_files(layout: Layout, folder: Path, found: DatasetFindings) -> None:
    for split in layout.files:
        for path in layout.paths(folder, split):
            published = layout.md5.get(path.name)
            md5 = md5_of(path)
            matches = None if published is None else md5 == published
            found.files.append(File(path.name, os.stat(path).st_size, md5, matches))
            # A gzip file carries a checksum of its own, so one that differs was packed anew, not damaged.
            if matches is False and not found.subset and not layout.gzipped:
                found.problems.append(
                    f"{path} is not the published file: its md5 is {md5}, not {published}"
                )
