"""Every name that torch keeps private and we use, with the reason, and what its versions name differently.

The tests run on torch 2.6 to 2.15 (``make compat``). Names that begin with ``torch._foreach_`` are documented
with ``torch.optim`` and stay in :mod:`gaf.kernels.foreach`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam as _adam
from torch.optim.adamw import adamw as _adamw
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

# What Adam's step begins with; up to torch 2.10 it is named after CUDA.
GRAPH_CAPTURE_CHECK = next(
    name
    for name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check")
    if hasattr(torch.optim.Optimizer, name)
)

# Whether torch's Adam knows ``decoupled_weight_decay``; before torch 2.7 AdamW is a class and a step apart.
ADAM_DECOUPLES = "decoupled_weight_decay" in inspect.signature(torch.optim.Adam).parameters


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


def adam(*lists: Any, decoupled_weight_decay: bool, **hyper: Any) -> None:
    """torch's step of Adam or AdamW."""
    if ADAM_DECOUPLES:
        hyper["decoupled_weight_decay"] = decoupled_weight_decay
        _adam(*lists, **hyper)
    else:
        (_adamw if decoupled_weight_decay else _adam)(*lists, **hyper)
