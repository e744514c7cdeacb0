"""f in a loop by accelerate.

``accelerator.prepare`` takes our optimizers, and those of :func:`gaf.create_optimizer` and
:func:`gaf.activate`, as it takes torch's. Here is the functional form, to be called where one would call
``accelerator.clip_grad_norm_``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.amp.grad_scaler import OptState

import gaf
from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.integrations.frameworks import needs

with needs("accelerate"):
    from accelerate import Accelerator, DistributedType
    from accelerate.optimizer import AcceleratedOptimizer

# Their engines hold gradients elsewhere than in p.grad, or sum them up inside the step.
_ENGINES = (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM, DistributedType.XLA)


def activate_grad_(
    accelerator: Accelerator,
    optimizer: AcceleratedOptimizer,
    activation: Activation | str,
    *,
    error_if_nonfinite: bool = False,
) -> Tensor | None:
    """Replace the gradients of a prepared optimizer by f(gradient), in place.

    Call it before each ``optimizer.step()``: where gradients are still being accumulated it does nothing, and
    under a loss scale it unscales first, unless ``accelerator.clip_grad_norm_`` has.

    Returns:
        What :func:`gaf.activate_grad_` returns, or None where it did nothing.
    """
    refuse_engine(accelerator.distributed_type)
    if not accelerator.sync_gradients:
        return None
    inner = unwrap(optimizer)
    scaler = getattr(optimizer, "scaler", None)
    if scaler is not None and _is_scaled(scaler, inner):
        scaler.unscale_(inner)
    params = [p for group in inner.param_groups for p in group["params"]]
    return gaf.activate_grad_(params, activation, error_if_nonfinite=error_if_nonfinite)


def unwrap(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer that accelerate was given."""
    while isinstance(optimizer, AcceleratedOptimizer):
        optimizer = optimizer.optimizer
    return optimizer


def refuse_engine(kind: DistributedType) -> None:
    """Raise for an engine whose optimizers do not step on ``p.grad``."""
    if kind in _ENGINES:
        raise GafError(
            f"{kind.value} does not leave the gradients in p.grad until the step, so nothing outside it can "
            "activate them: give it gaf.SGD or gaf.AdamW as its optimizer, or use DDP or FSDP"
        )


def _is_scaled(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> bool:
    return scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.READY
