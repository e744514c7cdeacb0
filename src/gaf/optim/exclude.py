"""Parameter groups in a line."""

from __future__ import annotations

from typing import Any

from torch import nn

_NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.RMSNorm,
)


def exclude_bias_and_norm(model: nn.Module, **settings: Any) -> list[dict[str, Any]]:
    """Two parameter groups: the weights, and the biases and norm layers with ``settings`` of their own.

    A parameter counts as bias or norm if its name ends in "bias", if it has at most one dimension, or if
    a norm layer owns it. Frozen parameters are left out, shared ones counted once.

    Args:
        model: the module whose parameters are grouped.
        **settings: what differs for biases and norm layers.

    Example:
        >>> import gaf
        >>> from torch import nn
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))
        >>> groups = gaf.exclude_bias_and_norm(model, activation=None, weight_decay=0.0)
        >>> [len(group["params"]) for group in groups]
        [2, 4]
        >>> opt = gaf.SGD(groups, lr=0.1, momentum=0.9, weight_decay=5e-4, activation="arctan(0.1, 20)")
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"exclude_bias_and_norm takes the model, got {type(model).__name__}")
    if not settings:
        raise TypeError(
            "exclude_bias_and_norm needs what differs for biases and norm layers, such as activation=None"
        )
    of_norm = {
        id(p)
        for module in model.modules()
        if isinstance(module, _NORMS)
        for p in module.parameters(recurse=False)
    }
    weights, others = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        apart = p.ndim <= 1 or name.endswith("bias") or id(p) in of_norm
        (others if apart else weights).append(p)
    groups = [{"params": weights}, {"params": others, **settings}]
    return [group for group in groups if group["params"]]
