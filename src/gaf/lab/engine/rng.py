"""What chance decides in a run: random states, and which samples make a batch.

States are seeded once, saved with each checkpoint, and kept from whoever has no part in them. A batch is a
pure function of seed, epoch and position, for any number of processes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.lab.engine.config import RunConfig


def mixed(*numbers: int) -> int:
    """One seed from several numbers, of 32 bits: torch's CPU generator reads no more of it."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def seed_all(seed: int, rank: int = 0) -> None:
    """Seed Python, NumPy and torch; each process draws numbers of its own."""
    own = mixed(seed, rank) if rank else seed
    random.seed(own)
    np.random.seed(own)  # noqa: NPY002 - the generator a user's task may draw from
    torch.manual_seed(own)


def states(device: torch.device) -> dict[str, Any]:
    """All states as plain values and tensors."""
    numpy: Any = np.random.get_state()  # noqa: NPY002
    name, keys, *rest = numpy
    saved = {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        saved["cuda"] = torch.cuda.get_rng_state(device)
    return saved


def restore(saved: dict[str, Any], device: torch.device) -> None:
    """Go on from saved states."""
    version, numbers, gauss = saved["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, *rest = saved["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(saved["torch"])
    if device.type == "cuda" and "cuda" in saved:
        torch.cuda.set_rng_state(saved["cuda"], device)


@contextmanager
def untouched() -> Iterator[None]:
    """Leave torch's CPU state as it was: a DataLoader draws from it whenever it begins."""
    before = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(before)


@contextmanager
def own_settings(threads: int | None) -> Iterator[None]:
    """Random states and threads of a run; the caller's come back afterwards."""
    before, had = states(torch.device("cpu")), torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(had)
        restore(before, torch.device("cpu"))


@dataclass(frozen=True)
class Part:
    """What one process puts through the model at once, and how its mean loss counts in the step's."""

    indices: Tensor
    weight: float


@dataclass(frozen=True)
class Sampler:
    """Cuts epochs of a dataset into steps, and steps into parts.

    The weights make the gradient that of the mean over the whole batch: processes average, so a process
    with n of b samples counts n * processes / b. One that would get none computes one sample at weight 0,
    because the others wait for it.
    """

    samples: int
    batch_size: int
    drop_last: bool
    seed: int
    accumulate: int = 1
    rank: int = 0
    processes: int = 1

    @classmethod
    def of(cls, config: RunConfig, samples: int, rank: int, processes: int) -> Sampler:
        """For a config; refuses a dataset that fills no batch."""
        sampler = cls(
            samples,
            config.batch_size,
            config.drop_last,
            config.seed,
            config.accumulate,
            rank,
            processes,
        )
        if sampler.steps == 0:
            raise GafError(
                f"{samples} samples do not fill one batch of {config.batch_size}, and drop_last is set"
                if samples
                else "there are no samples to train on"
            )
        return sampler

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        whole, rest = divmod(self.samples, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def epoch(self, epoch: int) -> list[Tensor]:
        """The batches of an epoch over all processes, as indices."""
        generator = torch.Generator().manual_seed(mixed(self.seed, epoch))
        order = torch.randperm(self.samples, generator=generator)
        return list(order[: self.steps * self.batch_size].split(self.batch_size))

    def parts(self, batch: Tensor) -> list[Part]:
        """What this process does of a batch, in turn."""
        parts = []
        for piece in batch.tensor_split(min(self.accumulate, len(batch))):
            mine = piece[self.rank :: self.processes]
            weight = len(mine) * self.processes / len(batch)
            parts.append(Part(mine if len(mine) else piece[:1], weight))
        return parts


def evaluation_indices(samples: int, batch_size: int, rank: int, processes: int) -> list[Tensor]:
    """A process's batches of a test set in order; all have as many, the last ones begin again at 0."""
    length = -(-samples // processes) * processes
    mine = torch.arange(length)[rank::processes] % samples
    return list(mine.split(max(1, batch_size // processes)))
