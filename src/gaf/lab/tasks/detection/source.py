"""What SSD300 sees of PASCAL VOC: images of 300 x 300 with their objects, read ahead by workers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset as TorchDataset

from gaf.lab.data import voc
from gaf.lab.data.augment import BITS, draws, scale_and_shift
from gaf.lab.data.files import DamagedFile
from gaf.lab.data.imagefolder import MEAN, STD
from gaf.lab.data.sources import Subset, read_ahead
from gaf.lab.data.voc import VocImages, decoded
from gaf.lab.tasks.detection.augment import Window, boxes_in, random_colours, random_window
from gaf.lab.tasks.detection.boxes import SIZE
from gaf.lab.tasks.detection.loss import NOTHING
from gaf.lab.tasks.detection.metric import Objects

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
    problem: str  # a sentence about an image that cannot be used; there is no batch then


@dataclass(frozen=True)
class _Reader(TorchDataset[_Read]):
    """Batches by their indices; what a worker gets."""

    listing: voc.VocListing
    augment: bool
    seed: int
    epoch: int

    def __getitem__(self, index: list[int]) -> _Read:
        try:
            images, labels, boxes = zip(*map(self._sample, index), strict=True)
        except DamagedFile as error:
            nothing = torch.empty(0)
            return _Read(nothing, nothing, nothing, str(error))
        return _Read(
            torch.stack(images),
            pad_sequence(list(labels), batch_first=True, padding_value=NOTHING),
            pad_sequence(list(boxes), batch_first=True),
            "",
        )

    def _sample(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        from gaf.lab.tasks.detection.augment import view

        listing = self.listing
        image = decoded(listing, index)
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


class VocSource:
    """Images of VOC with their objects, in batches.

    A broken image ends the training: replacing it would change what the test counts.

    Args:
        images: what to read; where they may be augmented: by SSD's windows, colours and mirror images.
    """

    shape = (3, SIZE, SIZE)

    def __init__(self, images: VocImages) -> None:
        self.images, self.listing = images, images.listing
        self.name, self.classes, self.fingerprint = images.name, images.classes, images.fingerprint

    def __len__(self) -> int:
        return len(self.images)

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
        reader = _Reader(self.listing, self.images.augment, seed, epoch)
        pin, workers = device.type == "cuda", self.images.workers
        # without a name: the traceback of an error would keep it, and with it the workers
        for images, labels, boxes, problem in read_ahead(reader, indices, workers, pin=pin):
            if problem:
                raise DamagedFile(problem)
            inputs = images.to(device, non_blocking=True).float().mul_(scale).add_(shift)
            yield DetectionBatch(inputs, labels.to(device), boxes.to(device))


def objects_of(source: Any) -> Objects:
    """All objects of a :class:`VocSource`, or of a subset with the numbers that its images have there."""
    if not isinstance(source, Subset):
        return source.objects()
    objects = objects_of(source.whole)
    number = torch.full((len(source.whole),), -1)
    number[source.indices] = torch.arange(len(source))
    there = number[objects.image] >= 0
    image, *rest = (column[there] for column in objects)
    return Objects(number[image], *rest)
