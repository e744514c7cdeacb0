"""Data that a rule makes, without a file: samples by index, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gaf.lab.data.augment import draws, uniform
from gaf.lab.tasks.base import Task


class MadeSource:
    """Tensors whose first axis runs over the samples.

    Args:
        name: of the data.
        about: what identifies it: the rule and its numbers. Not a checksum of values, whose last bits are the
            processor's.
        parts: what a batch is made of.
    """

    classes: tuple[str, ...] = ()

    def __init__(self, name: str, about: str, *parts: Tensor) -> None:
        self.name, self.fingerprint, self.parts = name, {name: about}, parts
        self.shape = tuple(parts[0].shape[1:])

    @property
    def targets(self) -> Tensor:
        """The last part: labels, where a task has some."""
        return self.parts[-1]

    def __len__(self) -> int:
        return len(self.parts[0])

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[tuple[Tensor, ...]]:
        self.parts = tuple(part.to(device) for part in self.parts)
        for batch in indices:
            index = batch.to(device)
            yield tuple(part[index] for part in self.parts)


class MadeTask(Task):
    """A task whose training and test data are made together."""

    @cached_property
    def splits(self) -> tuple[Any, Any]:
        """The training data and the test data."""
        raise NotImplementedError

    def train_source(self) -> Any:
        return self.splits[0]

    def test_source(self) -> Any:
        return self.splits[1]


def uniforms(seed: int, samples: int, count: int) -> Tensor:
    """Numbers in (0, 1), float64 [samples, count], by a generator of integers: no machine has others.

    Example:
        >>> uniforms(0, 100_000, 1).mean().item()
        0.50...
    """
    return uniform(draws(seed, 0, torch.arange(samples), count)) + 2.0**-33


def normals(seed: int, samples: int, count: int) -> Tensor:
    """Numbers of the normal distribution, float32 [samples, count], the same to the last bits.

    Example:
        >>> normals(0, 100_000, 1).std().item()
        1.00...
    """
    return torch.special.ndtri(uniforms(seed, samples, count)).float()
