"""Which implementation serves a parameter group: ``foreach=`` and ``fused=`` as in torch.optim.

Unset, the fastest that applies: native kernels, else foreach where torch would, else one tensor at a time.
The Triton kernels for CUDA serve where ``fused=True`` asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor
from torch.optim.optimizer import _default_to_fused_or_foreach

from gaf.functions.lift import refuse_partial
from gaf.kernels import native
from gaf.optim.settings import Group, kernel_of


def implementation(group: Group, *lists: Sequence[Tensor | None]) -> str:
    """``"native"``, ``"triton"``, ``"foreach"`` or ``"single"`` for a group with an activation.

    Args:
        group: the parameter group.
        lists: its parameters, gradients and state, as parallel lists.
    """
    fused, foreach = group["fused"], group["foreach"]
    if fused or (fused is None and foreach is None):
        reason = _refusal(group, *lists)
        if reason is None:
            return "triton" if _on_cuda(lists[0]) else "native"
        if fused:
            raise RuntimeError(f"`fused=True` cannot be honoured: {reason}; leave `fused` unset")
    refuse_partial(lists[1])  # the kernels have done so
    return without_kernels(group, lists[0], lists[1])


def without_kernels(
    group: Group, params: Sequence[Tensor | None], grads: Sequence[Tensor | None]
) -> str:
    """``"foreach"`` or ``"single"``."""
    if group["differentiable"] or any(t is not None and t.is_sparse for t in grads):
        return "single"
    foreach = group["foreach"]
    if foreach is None:
        _, foreach = _default_to_fused_or_foreach(list(params), False)  # type: ignore[arg-type]
    return "foreach" if foreach and params else "single"


def check_fused(group: Group) -> None:
    """Refuse ``fused=True`` for a group that no kernel can serve, as early as its parameters are known.

    Those on the meta device have no memory yet, and are refused by the step, as in torch.
    """
    if group["fused"] and group["gaf_function"] is not None:
        if group["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        params = [p for p in group["params"] if not p.is_meta]
        implementation(group, params, [None] * len(params))


def kernels(how: str) -> ModuleType | None:
    """The module of fused kernels that an implementation stands for, if it does."""
    if how == "triton":
        from gaf.kernels import triton  # loads Triton on first use only

        return triton
    return native if how == "native" else None


def _on_cuda(params: Sequence[Tensor | None]) -> bool:
    """Whether the first is; a group of several devices is then refused by the kernels of either."""
    return bool(params) and params[0] is not None and params[0].is_cuda


def _refusal(group: Group, *lists: Sequence[Tensor | None]) -> str | None:
    if group["differentiable"]:
        return "a fused step is not differentiable"
    if torch.compiler.is_compiling() and not group["fused"]:
        return "torch.compile fuses the step by itself"
    if _on_cuda(lists[0]):
        if not group["fused"]:
            return "the Triton kernels serve where fused=True asks for them"
        triton = kernels("triton")
        assert triton is not None
        return triton.refusal(kernel_of(group)[0], *lists)
    if group.get("capturable"):
        return "the native kernels cannot be captured in a CUDA graph"
    function, params = kernel_of(group)
    return native.refusal(function, *lists, params=params)
