"""The update rule of a config, what is done to gradients before it, and its learning rate.

The rule is ours, which without an activation is torch's own to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gaf.lab.engine.config import OptimizerConfig, ScheduleConfig
from gaf.optim.factory import OURS

if TYPE_CHECKING:
    from gaf.lab.engine.distributed import Fabric

TINY = 1e-30  # a gradient that is 0 has no direction, and stays 0


def make_optimizer(
    config: OptimizerConfig, params: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimizer; what a schedule changes is ``group["lr"]``."""
    names = ("lr", "weight_decay", "activation", "placement", *config.own_keys)
    make: Any = OURS[config.name]
    return make(params, **{name: getattr(config, name) for name in names})


def treat_gradients(
    fabric: Fabric, config: OptimizerConfig, model: nn.Module, optimizer: Any
) -> None:
    """Centralize, clip or normalize gradients as the config says; under a loss scale they are unscaled first.

    An infinite gradient is not refused here: the scaler skips such a step, and without one the loss tells.
    """
    if config.centralize:
        for p in model.parameters():
            if p.grad is not None and p.ndim > 1:
                p.grad -= p.grad.mean(dim=tuple(range(1, p.ndim)), keepdim=True)
    if config.clip_value is not None:
        fabric.clip_gradients(model, optimizer, clip_val=config.clip_value)
    elif config.clip_norm is not None:
        fabric.clip_gradients(model, optimizer, max_norm=config.clip_norm, error_if_nonfinite=False)
    elif config.normalize is not None:
        # A threshold of inf cuts nothing: it unscales, and gives the norm over all processes.
        norm = fabric.clip_gradients(model, optimizer, max_norm=math.inf, error_if_nonfinite=False)
        factor = config.normalize / norm.clamp(min=TINY)  # type: ignore[union-attr]
        for p in model.parameters():
            if p.grad is not None:
                p.grad *= factor


def rate_factor(schedule: ScheduleConfig, step: int, total: int, epoch_length: int) -> float:
    """What ``lr`` is multiplied by at a step.

    Args:
        schedule: the schedule.
        step: the number of steps done before.
        total: the number of steps of the run.
        epoch_length: the number of steps of an epoch.

    Example:
        >>> cosine = ScheduleConfig(warmup=2, unit="iteration")
        >>> [round(rate_factor(cosine, step, total=6, epoch_length=3), 3) for step in range(6)]
        [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    """
    unit = epoch_length if schedule.every == "epoch" else 1  # steps at one rate
    at = step // unit * unit
    scale = epoch_length if schedule.unit == "epoch" else 1
    warmup = schedule.warmup * scale
    if at < warmup:  # from one unit's share up to the whole
        return min((at + unit) / warmup, 1.0)
    if schedule.name == "cosine":
        share = (at - warmup) / max(total - warmup, 1)
        return schedule.floor + (1 - schedule.floor) * (1 + math.cos(math.pi * share)) / 2
    if schedule.name == "step":
        return schedule.gamma ** sum(at >= milestone * scale for milestone in schedule.milestones)
    return 1.0
