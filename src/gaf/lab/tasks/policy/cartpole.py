"""CartPole as a source: a sample is an episode that has not been played yet.

What chance decides in an episode is a function of (seed, epoch, index): the state it begins in, and for
each step a number in [0, 1) that picks the action from the policy's probabilities. The environment does
the rest without chance, so weights and noise give the episode, and there is no state to save between steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gaf.lab.data.augment import draws, uniform
from gaf.lab.data.files import DataError

ID = "CartPole-v1"
STEPS = 500  # that an episode has at most; each gives a reward of 1
EDGE = 0.05  # each of the four numbers of the first state lies between this and its opposite
TRAIN, TEST = 128, 64  # episodes of an epoch, and of a test
# Added to the index of an episode, so that none is in two splits.
APART = {"train": 0, "test": 1 << 32, "validation": 2 << 32}


class Noise(NamedTuple):
    """What chance decides in some episodes."""

    starts: Tensor  # float64 [B, 4]: the first states
    picks: Tensor  # float32 [B, steps]


class Episodes:
    """Episodes of CartPole-v1 of gymnasium.

    Args:
        split: ``train``, ``test`` or ``validation``.
        steps: the most that an episode has, up to 500.
        episodes: of an epoch; unset: 128 to train, 64 to test or to validate.
    """

    name, classes, shape = "cartpole", ("left", "right"), (4,)

    def __init__(self, split: str, steps: int = STEPS, episodes: int | None = None) -> None:
        if steps > STEPS:
            raise DataError(f"an episode of cartpole has at most {STEPS} steps, not {steps}")
        self.split, self.steps = split, steps
        self.count = episodes or (TRAIN if split == "train" else TEST)
        self.fingerprint = {ID: f"gymnasium {gymnasium().__version__}"}

    def __len__(self) -> int:
        return self.count

    def batches(
        self, indices: Sequence[Tensor], *, seed: int, epoch: int, device: torch.device
    ) -> Iterator[Noise]:
        """The noise of each episode."""
        for batch in indices:
            index = batch + APART[self.split]
            numbers = uniform(draws(seed, epoch, index, 4 + self.steps))
            # float32 has 24 bits: rounding must not give 1
            picks = numbers[:, 4:].float().clamp(max=1 - 2.0**-24)
            yield Noise(EDGE * (2 * numbers[:, :4] - 1), picks.to(device))


def begin(starts: Tensor) -> Any:
    """Environments side by side in these states; one whose pole has fallen goes on anew, to be ignored."""
    environments = gymnasium().make_vec(
        ID, num_envs=len(starts), vectorization_mode="vector_entry_point"
    )
    environments.reset(seed=0)
    environments.unwrapped.state = starts.numpy().T.copy()
    return environments


def gymnasium() -> Any:
    """The package, or a sentence that says how to install it."""
    try:
        import gymnasium as package
    except ModuleNotFoundError:
        raise DataError(
            "cartpole needs gymnasium, which is not installed: pip install 'activated-gradients[lab]'"
        ) from None
    return package
