"""Which implementation serves a parameter group: ``foreach=`` and ``fused=`` as in torch.optim.

Unset, the fastest that applies: native kernels, else foreach where torch would, else one tensor at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.optimizer import _default_to_fused_or_foreach

from gaf.kernels import native
from gaf.optim.settings import Group


def implementation(group: Group, *lists: Sequence[Tensor | None]) -> str:
    """``"native"``, ``"foreach"`` or ``"single"`` for a group with an activation.

    Args:
        group: the parameter group.
        lists: its parameters, gradients and state, as parallel lists.
    """
    fused, foreach = group["fused"], group["foreach"]
    if fused or (fused is None and foreach is None):
        reason = _refusal(group, *lists)
        if reason is None:
            return "native"
        if fused:
            raise RuntimeError(f"`fused=True` cannot be honoured: {reason}; leave `fused` unset")
    if group["differentiable"] or any(t is not None and t.is_sparse for t in lists[1]):
        return "single"
    if foreach is None:
        _, foreach = _default_to_fused_or_foreach(list(lists[0]), False)  # type: ignore[arg-type]
    return "foreach" if foreach and lists[0] else "single"


def check_fused(group: Group) -> None:
    """Refuse ``fused=True`` for a group that no kernel can serve, as early as its parameters are known."""
    if group["fused"] and group["gaf_function"] is not None:
        if group["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        implementation(group, group["params"], [None] * len(group["params"]))


def _refusal(group: Group, *lists: Sequence[Tensor | None]) -> str | None:
    if group["differentiable"]:
        return "a fused step is not differentiable"
    if group.get("capturable"):
        return "the native kernels cannot be captured in a CUDA graph"
    if torch.compiler.is_compiling() and not group["fused"]:
        return "torch.compile fuses the step by itself"
    return native.refusal(group["gaf_function"], *lists, params=group["gaf_params"])
