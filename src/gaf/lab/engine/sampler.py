"""Which samples make a batch: a pure function of seed, epoch and position, for any number of processes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.lab.engine import rng
from gaf.lab.engine.config import RunConfig


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
        found = cls(
            samples,
            config.batch_size,
            config.drop_last,
            config.seed,
            config.accumulate,
            rank,
            processes,
        )
        if found.steps == 0:
            raise GafError(
                f"{samples} samples do not fill one batch of {config.batch_size}, and drop_last is set"
                if samples
                else "there are no samples to train on"
            )
        return found

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        whole, rest = divmod(self.samples, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def epoch(self, epoch: int) -> list[Tensor]:
        """The batches of an epoch over all processes, as indices."""
        generator = torch.Generator().manual_seed(rng.mixed(self.seed, epoch))
        order = torch.randperm(self.samples, generator=generator)
        return list(order[: self.steps * self.batch_size].split(self.batch_size))

    def parts(self, batch: Tensor) -> list[Part]:
        """What this process does of a batch, in turn."""
        found = []
        for each in batch.tensor_split(min(self.accumulate, len(batch))):
            mine = each[self.rank :: self.processes]
            weight = len(mine) * self.processes / len(batch)
            found.append(Part(mine if len(mine) else each[:1], weight))
        return found


def evaluation_indices(samples: int, batch_size: int, rank: int, processes: int) -> list[Tensor]:
    """A process's batches of a test set in order; all have as many, the last ones begin again at 0."""
    length = -(-samples // processes) * processes
    mine = torch.arange(length)[rank::processes] % samples
    return list(mine.split(max(1, batch_size // processes)))
