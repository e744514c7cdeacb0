"""An agent that learns by REINFORCE (Williams, 1992) on CartPole, scored by how long it keeps the pole up.

    G[t] = (1 - γ) Σ_{s ≥ t} γ^(s - t) r[s]                 the return from step t on, between 0 and 1
    ∇ = -mean over episodes of Σ_t (G[t] - b[t]) ∇log π(a[t] | x[t])

b is the mean of the other episodes' G at the same step, 0 for those that have ended: it does not depend on
the episode that it judges, so the gradient stays unbiased.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.lab.tasks.base import NamedTask, TaskConfig
from gaf.lab.tasks.classification.layers import is_count
from gaf.lab.tasks.policy.cartpole import Episodes, Noise, begin

DISCOUNT = 0.99


class Played(NamedTuple):
    """Episodes side by side. After the end of one its rewards are 0, and the rest means nothing."""

    observations: Tensor  # [T, B, 4]
    actions: Tensor  # int64 [T, B]
    rewards: Tensor  # [T, B]


class PolicyGradient(NamedTask[Episodes]):
    """REINFORCE; the score is the mean return of the test's episodes, without discount: steps, at most 500.

    Actions are drawn from the policy in the test too. The loss has the value of minus the mean of G[0] and
    the gradient above, so what is recorded falls as the agent learns. Each process and each accumulated part
    takes the baseline b of its own episodes.

    Args:
        config: ``data`` is "cartpole", with ``steps`` and ``episodes`` as options; a model by name.
    """

    score: ClassVar[str] = "return"

    def __init__(self, config: TaskConfig) -> None:
        if config.data != "cartpole":
            hint = did_you_mean(config.data, ["cartpole"])
            raise GafError(f"unknown environment {config.data!r}{hint}")
        if config.model != "mlp":
            raise GafError(
                f"{config.model} is no policy; a policy-gradient task takes a perceptron, mlp"
            )
        if config.label_smoothing:
            raise GafError("an agent has no labels: leave label_smoothing at 0")
        super().__init__(config)

    def open_split(self, split: str, **changes: Any) -> Episodes:
        options: dict[str, Any] = {**self.config.data_options, **changes}
        known = [name for name in inspect.signature(Episodes).parameters if name != "split"]
        for option, value in options.items():
            if option not in known:
                hint = did_you_mean(option, known)
                raise GafError(f"unknown option {option!r} of the environment cartpole{hint}")
            if not is_count(value):
                raise GafError(
                    f"{option} of cartpole must be a whole number above 0, got {value!r}"
                )
        return Episodes(split, **options)

    def training_part(self) -> Episodes:
        """All of them: episodes for validation are played beside these, not taken from them."""
        return self.train_source()

    def validation_part(self) -> Episodes:
        """Episodes of their own, as many as of a test."""
        return self.open_split("validation")

    def build_model(self) -> nn.Module:
        source, options = self.train_source(), self.config.model_options
        # four numbers are seen, which a perceptron for images takes as that many colours of one point
        given = {"classes": len(source.classes), "in_channels": source.shape[0], "size": 1}
        if taken := given.keys() & options.keys():
            raise GafError(f"the environment decides {taken.pop()} of {self.config.model}")
        return self.build(**given, **options)

    def loss(self, model: nn.Module, batch: Noise) -> Tensor:
        played = play(model, batch)
        returns = to_go(played.rewards)
        advantages = returns - others_mean(returns)
        there = played.rewards > 0
        chosen = torch.log_softmax(model(played.observations[there]).float(), dim=1)
        chosen = chosen.gather(1, played.actions[there][:, None])[:, 0]
        surrogate = -(advantages[there] * chosen).sum() / played.rewards.shape[1]
        return surrogate - surrogate.detach() - returns[0].mean()

    def chance(self) -> float:
        """The mean return of a coin that is tossed for each action, and three standard errors more."""
        source = self.scored_part()
        noise = source.batches(
            [torch.arange(len(source))], seed=0, epoch=0, device=torch.device("cpu")
        )
        returns = play(Coin(), next(iter(noise))).rewards.sum(0)
        return (returns.mean() + 3 * returns.std(correction=0) / math.sqrt(len(returns))).item()

    def outcomes(self, model: nn.Module, batch: Noise) -> dict[str, Tensor]:
        """The loss and the return of each episode."""
        rewards = play(model, batch).rewards
        return {"loss": -to_go(rewards)[0], "return": rewards.sum(0)}


class Coin(nn.Module):
    """A policy that finds both actions equally good, whatever it sees."""

    def forward(self, observations: Tensor) -> Tensor:
        return torch.zeros(len(observations), 2)


@torch.no_grad()
def play(model: nn.Module, noise: Noise) -> Played:
    """Let the policy act in an environment for each episode, until all have ended."""
    if any(isinstance(p, DTensor) for p in model.parameters()):
        # episodes end at different steps, and a sharded layer waits for the other processes at each
        raise GafError("a policy-gradient task does not run on sharded weights: use strategy=ddp")
    environments = begin(noise.starts)
    seen, playing = noise.starts.float().numpy(), np.ones(len(noise.starts), dtype=bool)
    history = []
    for picks in noise.picks.T:
        observations = torch.from_numpy(seen).to(picks.device)
        probabilities = model(observations).float().softmax(dim=1)
        # the action in whose stretch of [0, 1) the pick lies
        actions = (probabilities.cumsum(dim=1)[:, :-1] <= picks[:, None]).sum(dim=1)
        rewards = torch.from_numpy(playing.astype(np.float32)).to(picks.device)  # 1 for each step
        # logits that are not finite give no probabilities, and an action drawn from none has no return
        rewards[~probabilities.isfinite().all(dim=1)] = torch.nan
        history.append((observations, actions, rewards))
        seen, _, fallen, *_ = environments.step(actions.cpu().numpy())
        playing = playing & ~fallen
        if not playing.any():
            break
    return Played(*map(torch.stack, zip(*history, strict=True)))


def to_go(rewards: Tensor) -> Tensor:
    """G of each step, [T, B].

    Example:
        >>> to_go(torch.tensor([[1.0], [1.0]])).flatten() / (1 - DISCOUNT)
        tensor([1.9900, 1.0000])
    """
    returns, after = torch.empty_like(rewards), torch.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        after = (1 - DISCOUNT) * rewards[step] + DISCOUNT * after
        returns[step] = after
    return returns


def others_mean(returns: Tensor) -> Tensor:
    """The mean over the other columns; 0 where there is no other."""
    others = returns.shape[1] - 1
    return (returns.sum(dim=1, keepdim=True) - returns) / max(1, others)
