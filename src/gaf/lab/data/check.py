"""Is what lies on disk the dataset? Sizes, records, labels and checksums where they are published."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from gaf.lab.data import voc
from gaf.lab.data.download import md5_of
from gaf.lab.data.files import DataError
from gaf.lab.data.imagefolder import BrokenImage, FolderSource, scan
from gaf.lab.data.layouts import SPLITS, Dataset, FolderDataset, Layout, Options, TensorDataset
from gaf.lab.data.text import TextDataset
from gaf.lab.data.voc import VocDataset, VocImages

Progress = Callable[[str, int, int], None]  # a split, images so far, images in all
Report = Callable[[int, int], None]  # the same of one split
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
            split.published is not None and split.samples < split.published for split in self.splits
        )

    @property
    def state(self) -> str:
        """In a word; readable: whole as far as can be seen, and not known to be the published data."""
        if self.problems:
            return "damaged"
        if self.subset:
            return "subset"
        known = all(split.published is not None for split in self.splits)
        differs = any(file.matches is False for file in self.files)
        return "complete" if known and not differs else "readable"


def check(dataset: Dataset, root: Path, progress: Progress, *, workers: int = 2) -> DatasetFindings:
    """Read all of a dataset and compare it with what is known of it; DatasetMissing where it is not there."""
    findings = DatasetFindings(dataset.name)
    layout = None
    if dataset.layouts:
        layout, folder = dataset.place(root)
        findings.layout, findings.folder = layout.name, str(folder)
    for split in SPLITS:
        report = partial(progress, split)
        try:
            if isinstance(dataset, TensorDataset):
                targets = dataset.read(split, root).targets
                _count(dataset, split, targets, findings)
                kinds, missing = len(dataset.classes), len(dataset.classes) - len(targets.unique())
                if missing:
                    findings.problems.append(
                        f"{split} has no sample of {missing} of its {kinds} classes"
                    )
            elif isinstance(dataset, FolderDataset):
                _check_folder(dataset, split, root, findings, report, workers)
            elif isinstance(dataset, VocDataset):
                _check_voc(dataset, split, root, findings, report, workers)
            elif isinstance(dataset, TextDataset):
                source = dataset.open(split, root, Options())
                _add_split(dataset, split, len(source), len(source.classes), findings)
        except DataError as error:
            findings.problems.append(str(error))
    if layout is not None:
        _check_files(layout, Path(findings.folder), findings)
    return findings


def _check_folder(
    dataset: FolderDataset,
    split: str,
    root: Path,
    findings: DatasetFindings,
    report: Report,
    workers: int,
) -> None:
    listing = scan(dataset.place(root)[1], split)
    _count(dataset, split, listing.targets, findings)
    source = FolderSource(dataset.name, listing, size=THUMBNAIL, workers=workers)
    batches = torch.arange(len(source)).split(BATCH)
    done = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BrokenImage)
        for images, _ in source.batches(batches, seed=0, epoch=0, device=torch.device("cpu")):
            done += len(images)
            report(done, len(source))
    findings.problems += [f"{path} is broken: {reason}" for path, reason in source.broken.items()]


def _check_voc(
    dataset: VocDataset,
    split: str,
    root: Path,
    findings: DatasetFindings,
    report: Report,
    workers: int,
) -> None:
    """All annotations, and that each image is there, whole and of the size they say."""
    listing = voc.scan(dataset.lists(split, root), problems=findings.problems)
    source = VocImages(dataset.name, listing, augment=False, workers=workers)
    _add_split(dataset, split, len(source), len(listing.labels.unique()), findings)
    done = 0
    batches = torch.arange(len(source)).split(BATCH) if len(source) else ()
    for batch, problems in zip(batches, source.problems(batches), strict=True):
        findings.problems += problems
        done += len(batch)
        report(done, len(source))


def _count(dataset: Dataset, split: str, targets: torch.Tensor, findings: DatasetFindings) -> None:
    published = _add_split(dataset, split, len(targets), len(targets.unique()), findings)
    if published is not None and len(targets) > published:
        findings.problems.append(
            f"{split} has {len(targets)} samples, the dataset only {published}"
        )


def _add_split(
    dataset: Dataset, split: str, samples: int, classes: int, findings: DatasetFindings
) -> int | None:
    """Note a split; returns how many samples of it are published."""
    published = dataset.counts.get(split)
    findings.splits.append(Split(split, samples, published, classes))
    return published


def _check_files(layout: Layout, folder: Path, findings: DatasetFindings) -> None:
    for path in [path for split in layout.files for path in layout.paths(folder, split)]:
        md5, published = md5_of(path), layout.md5.get(path.name)
        matches = None if published is None else md5 == published
        findings.files.append(File(path.name, os.stat(path).st_size, md5, matches))
        # A gzip file carries a checksum of its own, so one that differs was packed anew, not damaged.
        if matches is False and not findings.subset and not layout.gzipped:
            findings.problems.append(
                f"{path} is not the published file: its md5 is {md5}, not {published}"
            )
