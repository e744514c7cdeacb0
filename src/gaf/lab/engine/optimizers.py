"""The update rule of a config, what is done to gradients before it, and its learning rate.

The rule is ours, which without an activation is torch's own to the bit, or a class that the config names.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

import gaf
from gaf.common.errors import GafError
from gaf.lab.engine.config import OptimizerConfig, ScheduleConfig
from gaf.lab.tasks import look_here
from gaf.optim.factory import OURS, optimizer_type
from gaf.optim.switched import is_switched


def make_optimizer(
    config: OptimizerConfig, params: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimizer; what a schedule changes is ``group["lr"]``."""
    if not config.ours:
        return _make_imported(config, params)
    names = ("lr", "weight_decay", "activation", "placement", *config.own_keys)
    make: Any = OURS[config.name]
    optimizer = make(params, **{name: getattr(config, name) for name in names})
    config.treatment.attach(optimizer)
    return optimizer


def import_rule(name: str) -> type[torch.optim.Optimizer]:
    """The class of ``module:Class``, refused where the engine cannot take its step.

    Modules of the current folder are found.
    """
    look_here()
    kind = optimizer_type(name)
    _, *needed = _needed(kind.step)
    if needed:
        raise GafError(
            f"{name} cannot be trained with: its step needs {needed[0]!r}, which the engine does not give"
        )
    if "lr" not in parameters(kind):
        raise GafError(f"{name} cannot be trained with: it takes no lr")
    return kind


def _needed(function: Any) -> list[str]:
    """The parameters without a default."""
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def parameters(kind: type) -> Mapping[str, inspect.Parameter]:
    """What the constructor takes, by name."""
    return inspect.signature(kind).parameters


def check_arguments(config: OptimizerConfig) -> dict[str, Any]:
    """What the class of a config is called with; GafError where it does not take that."""
    kind = import_rule(config.name)
    arguments: dict[str, Any] = {"lr": config.lr}
    if "weight_decay" in parameters(kind):
        arguments["weight_decay"] = config.weight_decay
    elif config.weight_decay:
        raise GafError(f"{config.name} takes no weight_decay: set optimizer.weight_decay to 0")
    for key, value in config.arguments.items():  # JSON has no tuples, and betas is mostly one
        arguments[key] = tuple(value) if isinstance(value, list) else value
    try:
        inspect.signature(kind).bind((), **arguments)
    except TypeError as error:
        raise GafError(f"{config.name} and its arguments do not fit: {error}") from None
    return arguments


def _make_imported(
    config: OptimizerConfig, params: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    arguments = check_arguments(config)
    make: Any = import_rule(config.name)
    try:
        optimizer = make(params, **arguments)
    except (TypeError, ValueError) as error:  # such as a value that it does not allow
        reason = " ".join(str(error).split())
        raise GafError(f"{config.name} refuses its arguments or the model: {reason}") from error
    config.treatment.attach(optimizer)
    if config.activation is not None:
        gaf.activate(optimizer, config.activation, placement=config.placement)
    if is_switched(optimizer):
        optimizer.train()
    return optimizer


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
