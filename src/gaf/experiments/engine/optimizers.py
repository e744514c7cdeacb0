"""The update rule of a config: ours with an activation, which without one is torch's own to the bit."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from lightning_fabric import Fabric
from torch import nn

import gaf
from gaf.experiments.engine.config import OptimizerConfig


def make_optimizer(
    config: OptimizerConfig, params: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimizer; what a schedule changes is ``group["lr"]``."""
    shared = {
        "lr": config.lr,
        "weight_decay": config.weight_decay,
        "activation": config.activation,
        "placement": config.placement,
    }
    if config.name == "sgd":
        return gaf.SGD(
            params,
            momentum=config.momentum,
            dampening=config.dampening,
            nesterov=config.nesterov,
            **shared,
        )
    kind = gaf.Adam if config.name == "adam" else gaf.AdamW
    return kind(params, betas=config.betas, eps=config.eps, amsgrad=config.amsgrad, **shared)


def clip(fabric: Fabric, config: OptimizerConfig, model: nn.Module, optimizer: object) -> None:
    """Clip gradients as the config says; under a loss scale they are unscaled first.

    An infinite gradient is not refused here: the scaler skips such a step, and without one the loss tells.
    """
    if config.clip_value is not None:
        fabric.clip_gradients(model, optimizer, clip_val=config.clip_value)  # type: ignore[arg-type]
    elif config.clip_norm is not None:
        fabric.clip_gradients(
            model,
            optimizer,  # type: ignore[arg-type]
            max_norm=config.clip_norm,
            error_if_nonfinite=False,
        )
