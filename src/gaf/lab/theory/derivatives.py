"""Gradient and Hessian of a function of one point, over any batch of points."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.func import grad, jacrev, vmap


def batched_gradient(function: Callable[[Tensor], Tensor], w: Tensor) -> Tensor:
    """The gradient of ``function``, (n) to (), at the points w, (..., n) to (..., n)."""
    return vmap(grad(function))(w.reshape(-1, w.shape[-1])).reshape(w.shape)


def batched_hessian(function: Callable[[Tensor], Tensor], w: Tensor) -> Tensor:
    """The Hessian of ``function``, (n) to (), at the points w, (..., n) to (..., n, n)."""
    # reverse mode twice: torch's forward mode warns of its own torch.jit when it is first used
    flat = vmap(jacrev(grad(function)))(w.reshape(-1, w.shape[-1]))
    return flat.reshape(*w.shape, w.shape[-1])
