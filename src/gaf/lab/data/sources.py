"""What the engine trains on: samples known by index, turned into batches of tensors.

The engine says which indices make a batch. A source says what a sample looks like in an epoch, and that
depends on (seed, epoch, sample index) alone: not on the batch, the process or a resume.

Worker processes read images ahead of a training, and a signal to the group does not kill them. Ctrl-C, and
what a scheduler sends before it takes a machine away, reach every process of the group. The training answers
by saving, and must not find its workers dead. So a worker leaves the group; until it has, the two signals are
held back from it.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from gaf.lab.data.augment import CropFlip, scale_and_shift


class Source(Protocol):
    """Samples by index."""

    @property
    def name(self) -> str:
        """The name it was loaded by."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """What the targets stand for, in order."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input as the model sees it, such as (3, 32, 32)."""
        ...

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """What identifies the data: checksums of its files."""
        ...

    def __len__(self) -> int: ...

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[Any]:
        """A batch for each tensor of indices, in order, on the device."""
        ...


@dataclass(frozen=True)
class ImageRecords:
    """Images and labels as a file holds them."""

    images: Tensor  # uint8 [N, C, H, W]
    targets: Tensor  # int64 [N]
    fingerprint: Mapping[str, str]  # file name -> sha256


class TensorSource:
    """Small images that live on the device as bytes; a batch is gathered, augmented and normalised there.

    Args:
        name: the name it was loaded by.
        records: images, labels, checksums.
        classes: what the labels stand for.
        mean: of each channel, as a share of ``peak``.
        std: likewise.
        peak: the byte that stands for 1.
        augment: random crops and flips, or None.

    Example:
        >>> from gaf.lab.data import load
        >>> digits = load("digits", "train")
        >>> batches = digits.batches(
        ...     [torch.arange(64)], seed=0, epoch=0, device=torch.device("cpu")
        ... )
        >>> [(images.shape, labels.shape) for images, labels in batches]
        [(torch.Size([64, 1, 8, 8]), torch.Size([64]))]
    """

    def __init__(
        self,
        name: str,
        records: ImageRecords,
        classes: Sequence[str],
        *,
        mean: Sequence[float],
        std: Sequence[float],
        peak: float = 255.0,
        augment: CropFlip | None = None,
    ) -> None:
        self.name = name
        self.classes = tuple(classes)
        self.shape = tuple(records.images.shape[1:])
        self.fingerprint = dict(records.fingerprint)
        self.images, self.targets = records.images, records.targets
        self.mean, self.std, self.peak, self.augment = mean, std, peak, augment

    def __len__(self) -> int:
        return len(self.targets)

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs float32 [B, C, H, W], targets int64 [B]; the images move to the device once."""
        self.images, self.targets = self.images.to(device), self.targets.to(device)
        augment = self.augment
        scale, shift = scale_and_shift(self.mean, self.std, self.peak, device)
        for batch in indices:
            index = batch.to(device)
            images = self.images.index_select(0, index)
            if augment is not None:
                images = augment(images, index, seed=seed, epoch=epoch)
            yield images.float().mul_(scale).add_(shift), self.targets.index_select(0, index)


class Subset:
    """Some samples of a source; what is random in a sample stays what it is in the whole.

    Args:
        whole: the source.
        indices: of the samples in it, int64.

    Example:
        >>> from gaf.lab.data import load
        >>> few = Subset(load("digits", "train"), torch.tensor([3, 7]))
        >>> len(few), few.targets.tolist()
        (2, [3, 8])
    """

    def __init__(self, whole: Any, indices: Tensor) -> None:
        self.whole, self.indices = whole, indices

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def classes(self) -> tuple[str, ...]:
        return self.whole.classes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.whole.shape

    @property
    def targets(self) -> Tensor:
        """The labels, of a source that has them."""
        targets = self.whole.targets
        return targets[self.indices.to(targets.device)]

    @property
    def fingerprint(self) -> dict[str, str]:
        """That of the whole, and which samples."""
        digest = hashlib.sha256(self.indices.numpy().tobytes()).hexdigest()
        samples = f"{len(self)} of {len(self.whole)}, indices {digest}"
        return {**self.whole.fingerprint, "samples": samples}

    def __len__(self) -> int:
        return len(self.indices)

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[Any]:
        """As those of the whole."""
        chosen = [self.indices[batch] for batch in indices]
        return self.whole.batches(chosen, seed=seed, epoch=epoch, device=device)


SPLIT_SEED = 20  # of which samples are held out: the same for all runs


def hold_out(targets: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Which samples to keep, and which to hold out: at random, of each class this share, but never all.

    Args:
        targets: the class of each sample, int64; where there are no classes: zeros.
        share: of the samples to hold out.

    Example:
        >>> kept, held_out = hold_out(torch.arange(100) % 10, 0.2)
        >>> (held_out % 10).bincount().tolist()
        [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    """
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(SPLIT_SEED))
    counts = targets.bincount()
    # class by class, in random order within each
    order = order[targets[order].argsort(stable=True)]
    classes = targets[order]
    rank = torch.arange(len(order)) - (counts.cumsum(0) - counts)[classes]
    shares = torch.minimum((share * counts).round().long(), counts - 1)
    held_out = rank < shares[classes]
    return order[~held_out].sort().values, order[held_out].sort().values


Batch = TypeVar("Batch")

HELD = {signal.SIGINT, signal.SIGTERM}
_CAN = hasattr(os, "setpgid") and hasattr(signal, "pthread_sigmask")  # not on Windows


def read_ahead(
    reader: Dataset[Batch], indices: Sequence[Tensor], processes: int, *, pin: bool = False
) -> Iterator[Batch]:
    """What a reader gives for each tensor of indices, read by so many processes; 0: by this one."""
    from gaf.lab.data import photos  # noqa: F401 - without Pillow this fails here, not in a worker

    loader: DataLoader[Batch] = DataLoader(
        reader,
        sampler=[batch.tolist() for batch in indices],
        batch_size=None,
        num_workers=min(processes, len(indices)),
        collate_fn=_as_it_is,
        pin_memory=pin,
        worker_init_fn=_begin,
    )
    return _start(loader)


def _as_it_is(batch: Batch) -> Batch:
    return batch


def _begin(worker: int) -> None:
    """The first thing a worker does (``worker_init_fn``)."""
    if not _CAN:
        return
    os.setpgid(0, 0)
    while signal.sigpending() & HELD:  # it came before the worker had left the group
        signal.sigwait(HELD)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def _start(loader: DataLoader[Batch]) -> Iterator[Batch]:
    """Start the workers; they inherit that the signals are held back."""
    if not _CAN:
        return iter(loader)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        return iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
