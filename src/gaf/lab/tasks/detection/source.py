"""PASCAL VOC as a source: images of 300 x 300 with their objects, read by workers ahead of the training."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from gaf.lab.data import voc, workers
from gaf.lab.data.augment import scale_and_shift
from gaf.lab.data.draws import BITS, draws
from gaf.lab.data.errors import DamagedFile, DataError
from gaf.lab.data.folder_source import MEAN, STD
from gaf.lab.data.layouts import Dataset, Options
from gaf.lab.data.names import VOC
from gaf.lab.tasks.detection.augment import Window, boxes_in, random_colours, random_window
from gaf.lab.tasks.detection.defaults import SIZE
from gaf.lab.tasks.detection.loss import NOTHING
from gaf.lab.tasks.detection.metric import Objects

if TYPE_CHECKING:
    from PIL.Image import Image

PEAK = 255.0


class DetectionBatch(NamedTuple):
    """Images with their objects; the rows are filled up with label -1 to the length of the longest."""

    images: Tensor  # float32 [B, 3, 300, 300]
    labels: Tensor  # int64 [B, M]
    boxes: Tensor  # float32 [B, M, 4], edges as shares of the image


class _Read(NamedTuple):
    images: Tensor  # uint8
    labels: Tensor
    boxes: Tensor
    problems: list[str]  # a sentence about each image that cannot be used; there is no batch then


@dataclass(frozen=True)
class _Reader(TorchDataset[_Read]):
    """Batches by their indices; what a worker gets."""

    listing: voc.Listing
    augment: bool
    seed: int
    epoch: int

    def __getitem__(self, index: list[int]) -> _Read:
        samples, problems = [], []
        for each in index:
            try:
                samples.append(self._sample(each))
            except DamagedFile as error:
                problems.append(str(error))
        if problems:
            nothing = torch.empty(0)
            return _Read(nothing, nothing, nothing, problems)
        images, labels, boxes = zip(*samples, strict=True)
        return _Read(
            torch.stack(images),
            pad_sequence(list(labels), batch_first=True, padding_value=NOTHING),
            pad_sequence(list(boxes), batch_first=True),
            problems,
        )

    def _sample(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        from gaf.lab.tasks.detection.views import view

        listing = self.listing
        image = _decoded(listing.images[index], tuple(listing.sizes[index].tolist()))
        mine = listing.of(index)
        labels, boxes = listing.labels[mine], listing.boxes[mine]
        window, colours = Window(), None
        if self.augment:
            first, second = draws(self.seed, self.epoch, torch.tensor([index]), 2)[0].tolist()
            rng = random.Random(first << BITS | second)
            window = random_window(boxes, image.width / image.height, rng)
            colours = random_colours(rng)
        boxes, kept = boxes_in(window, boxes)
        pixels = view(image, SIZE, window, colours, around=[PEAK * mean for mean in MEAN])
        return pixels, labels[kept], boxes


def _decoded(path: Path, size: tuple[int, ...]) -> Image:
    """The image, if it has the size that its annotation says: that is looked at before any pixel."""
    from gaf.lab.data import photos

    width, height = voc.size_of(path)
    if (width, height) != size:
        raise DamagedFile(
            f"{path} is {width} x {height} pixels, its annotation says {size[0]} x {size[1]}"
        )
    try:
        return photos.decode(path)
    except Exception as error:  # a decoder can fail in any way on a damaged file
        raise DamagedFile(f"{path} is broken ({voc.why(error)}): replace it") from None


class VocSource:
    """The images of lists of VOC with their objects.

    A broken image ends the training: replacing it would change what the test counts.

    Args:
        name: the name it was loaded by.
        listing: the images and their objects.
        augment: SSD's windows, colours and mirror images, or the whole image.
        workers: processes; 0: this one.
    """

    classes = VOC
    shape = (3, SIZE, SIZE)

    def __init__(self, name: str, listing: voc.Listing, *, augment: bool, workers: int) -> None:
        self.name, self.listing, self.augment, self.workers = name, listing, augment, workers
        self.fingerprint = {"lists and annotations": listing.checksum}

    def __len__(self) -> int:
        return len(self.listing.images)

    def objects(self) -> Objects:
        """All objects of all images."""
        listing = self.listing
        image = torch.arange(len(self)).repeat_interleave(listing.first.diff())
        return Objects(image, listing.labels, listing.boxes, listing.difficult)

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[DetectionBatch]:
        """A batch for each tensor of indices, normalised on the device."""
        scale, shift = scale_and_shift(MEAN, STD, PEAK, device)
        reader = _Reader(self.listing, self.augment, seed, epoch)
        for images, labels, boxes, problems in self._read(reader, indices, device):
            if problems:
                raise DamagedFile(problems[0])
            inputs = images.to(device, non_blocking=True).float().mul_(scale).add_(shift)
            yield DetectionBatch(inputs, labels.to(device), boxes.to(device))

    def problems(self, indices: Sequence[Tensor]) -> Iterator[list[str]]:
        """For each tensor of indices a sentence about every image in it that cannot be used."""
        reader = _Reader(self.listing, augment=False, seed=0, epoch=0)
        for each in self._read(reader, indices, torch.device("cpu")):
            yield each.problems

    def _read(
        self, reader: _Reader, indices: Sequence[Tensor], device: torch.device
    ) -> Iterator[_Read]:
        from gaf.lab.data import photos  # noqa: F401 - without Pillow this fails here, not in a worker

        loader: DataLoader[_Read] = DataLoader(
            reader,
            sampler=[each.tolist() for each in indices],
            batch_size=None,
            num_workers=min(self.workers, len(indices)),
            collate_fn=_as_it_is,
            pin_memory=device.type == "cuda",
            worker_init_fn=workers.begin,
        )
        return workers.start(loader)


@dataclass(frozen=True)
class VocDataset(Dataset):
    """One or several years of VOC; the files of its layouts are the lists of images of each split."""

    def open(self, split: str, root: Path, options: Options) -> VocSource:
        if options.size is not None:
            raise DataError(
                f"SSD300 sees the images of {self.name} at {SIZE} pixels: leave size unset"
            )
        return VocSource(
            self.name,
            voc.scan(self.lists(split, root), options.limit),
            augment=split == "train" if options.augment is None else options.augment,
            workers=options.workers,
        )

    def lists(self, split: str, root: Path) -> list[Path]:
        """The files that list the images of a split."""
        layout, folder = self.place(root)
        return layout.paths(folder, split)


def _as_it_is(batch: Any) -> Any:
    return batch
