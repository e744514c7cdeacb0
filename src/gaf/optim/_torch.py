"""Every name that torch keeps private and we use, with the reason.

All were there in torch 2.13.0. Names that begin with ``torch._foreach_`` are documented with
``torch.optim`` and stay in :mod:`gaf.kernels.foreach`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import (
    _default_to_fused_or_foreach,
    _get_scalar_dtype,
    _use_grad_for_differentiable,
)

# Decorates ``step``: gradients are off unless differentiable=True, and torch.compile breaks its graph around.
use_grad_for_differentiable = _use_grad_for_differentiable

# The dtype of a step counter, which torch's own checkpoints share.
scalar_dtype = _get_scalar_dtype

# Keeps a function out of a compiled step's graph; torch.compiler.disable wraps in more layers.
disable_dynamo = torch._disable_dynamo

# Where an optimizer keeps its hooks. The public way to register them gives each a number; a name of our own
# can be found again in a copy.
HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def hooks(optimizer: torch.optim.Optimizer) -> tuple[dict[Any, Any], ...]:
    """The optimizer's hooks, in the order of :data:`HOOKS`."""
    return tuple(getattr(optimizer, name) for name in HOOKS)


def is_hooked(kind: type[torch.optim.Optimizer]) -> bool:
    """Whether ``step`` of a class runs hooks: torch's constructor wraps it."""
    return getattr(kind.step, "hooked", False)


def wants_foreach(params: Sequence[Tensor]) -> bool:
    """Whether torch would take its foreach implementation where nobody has asked for one."""
    return _default_to_fused_or_foreach(list(params), False)[1]


def mark_as_called(optimizer: torch.optim.Optimizer) -> None:
    """Spare a scheduler's warning that ``step`` was never called, where it was left out on purpose."""
    optimizer._opt_called = True  # type: ignore[attr-defined]
