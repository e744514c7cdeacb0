"""Loss scaling: f must see gradients without the scale."""

from __future__ import annotations

import torch
from torch import Tensor


def unscaled(g: Tensor, scale: Tensor) -> Tensor:
    """What GradScaler.unscale_ does, in float32 for half precision: f(g) is rounded to it, not g."""
    wide = g.to(torch.promote_types(g.dtype, torch.float32))
    return wide * scale.double().reciprocal().float().to(g.device)
