"""The adding problem: a plain recurrent net has to remember two numbers out of a sequence, and add them.

Each element of a sequence is a number in [0, 1) and a mark; two elements are marked, one in each half. The
target is the sum of their numbers. Gradients through many steps vanish or explode (Hochreiter and
Schmidhuber, 1997; Pascanu, Mikolov and Bengio, *On the difficulty of training recurrent neural networks*,
2013, who clip).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from gaf.common.errors import GafError
from gaf.lab.tasks import Task
from gaf.lab.tasks.classification.layers import is_count
from gaf.lab.tasks.made import MadeSource, MadeTask, uniforms

LENGTH, HIDDEN = 30, 64
TRAIN, TEST = 5_000, 1_000


class PlainRecurrent(nn.Module):
    """h[t] = tanh(A x[t] + W h[t - 1] + b), and a linear reading of the last h; W begins orthogonal."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.RNN(2, hidden, batch_first=True)
        nn.init.orthogonal_(self.recurrent.weight_hh_l0)  # type: ignore[arg-type]
        self.head = nn.Linear(hidden, 1)

    def forward(self, sequences: Tensor) -> Tensor:
        _, last = self.recurrent(sequences)
        return self.head(last[0])[:, 0]


class Adding(MadeTask):
    """Mean squared error, the lower the better; ``right`` is the share of sums that are off by less than 0.1.

    Args:
        length: of the sequences.
        hidden: numbers that the net remembers.
    """

    score: ClassVar[str] = "loss"
    higher_is_better: ClassVar[bool] = False
    worst: ClassVar[float] = math.inf

    def __init__(self, length: int = LENGTH, hidden: int = HIDDEN) -> None:
        for name, value in (("length", length), ("hidden", hidden)):
            if not is_count(value) or value < 2:
                raise GafError(
                    f"{name} of the adding problem is a whole number above 1, not {value!r}"
                )
        self.length, self.hidden = length, hidden

    @cached_property
    def splits(self) -> tuple[MadeSource, MadeSource]:
        draws = uniforms(4, TRAIN + TEST, self.length + 2)
        numbers, places = draws[:, : self.length].float(), draws[:, self.length :]
        half = self.length // 2
        first = (places[:, 0] * half).long()
        second = half + (places[:, 1] * (self.length - half)).long()
        marks = torch.zeros_like(numbers)
        both = torch.stack([first, second], dim=1)
        marks.scatter_(1, both, 1.0)
        sequences = torch.stack([numbers, marks], dim=2)
        sums = numbers.gather(1, both).sum(1)
        about = f"length {self.length}"
        return (
            MadeSource("adding", f"{about}, {TRAIN}", sequences[:TRAIN], sums[:TRAIN]),
            MadeSource("adding", f"{about}, {TEST} after {TRAIN}", sequences[TRAIN:], sums[TRAIN:]),
        )

    def build_model(self) -> nn.Module:
        return PlainRecurrent(self.hidden)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        sequences, sums = batch
        return functional.mse_loss(model(sequences), sums)

    def outcomes(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        sequences, sums = batch
        errors = model(sequences) - sums
        return {"loss": errors.square(), "right": errors.abs() < 0.1}

    def chance(self) -> float:
        """The variance of the sums, less three standard errors: what the best constant takes, with luck."""
        sums = self.scored_part().targets.double()  # type: ignore[attr-defined]
        squares = (sums - sums.mean()).square()
        return (squares.mean() - 3 * squares.std() / math.sqrt(len(sums))).item()


def adding(length: int = LENGTH, hidden: int = HIDDEN) -> Task:
    """What the config names."""
    return Adding(length, hidden)
