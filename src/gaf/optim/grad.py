"""The functional form, to be called where one would call ``torch.nn.utils.clip_grad_norm_``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from gaf.functions import Activation, Adaptive, as_activation
from gaf.functions.lift import real_values
from gaf.kernels import native
from gaf.optim.monitor import Monitor
from gaf.optim.sharding import on_any_process


@torch.no_grad()
def activate_grad_(
    parameters: Tensor | Iterable[Tensor],
    activation: Activation | str,
    *,
    error_if_nonfinite: bool = False,
    monitor: Monitor | None = None,
) -> Tensor:
    """Replace each gradient by f(gradient), in place.

    Call it once per step, after the last ``backward()`` of an accumulation and after
    ``scaler.unscale_(optimizer)``: f of a sum is not the sum of f, and f must see the true scale.
    Called before ``clip_grad_norm_`` it bounds what is clipped; called after it, f sees clipped
    gradients. The two orders differ.

    Args:
        parameters: tensors whose ``.grad`` is activated; those without one are passed over.
        activation: the function, or its name.
        error_if_nonfinite: raise if a gradient holds inf or NaN, before anything is modified. Needs a
            device sync, and an all-reduce of one number where gradients are sharded DTensors (one for
            each dimension of their mesh).
        monitor: a :class:`gaf.Monitor` that records what f sees.

    Returns:
        The largest absolute gradient before activation (of this process's shards), as a tensor.

    Example:
        >>> import gaf, torch
        >>> w = torch.tensor([0.5, -3.0], requires_grad=True)
        >>> (w**2).sum().backward()
        >>> gaf.activate_grad_([w], gaf.Tanh(1.0, 1.0))
        tensor(6.)
        >>> w.grad
        tensor([ 0.7616, -1.0000])
    """
    f = as_activation(activation)
    if isinstance(f, Adaptive):
        name = type(f).__name__
        raise TypeError(
            f"{name} remembers steps, a function cannot: use gaf.activate(optimizer, gaf.{name}())"
        )
    if f is None:
        raise TypeError("activate_grad_ needs an activation such as gaf.Arctan(0.1, 20), got None")
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    # by identity: a gradient reached twice, as with tied weights, is activated once
    owners = list({id(p.grad): p for p in parameters if p.grad is not None}.values())
    grads: list[Tensor] = [p.grad for p in owners]  # type: ignore[misc]
    if error_if_nonfinite:
        _raise_if_nonfinite(largest_absolute(grads), grads)
    if monitor is not None:
        monitor.begin_step([{"params": owners}])
        monitor.observe(0, f)
    if native.refusal(f.name, grads, params=f.params) is None:
        return native.activate(grads, f.name, f.params)
    largest = largest_absolute(grads)
    for p, g in zip(owners, grads, strict=True):
        write_grad(p, f(g))
    return largest


def write_grad(p: Tensor, activated: Tensor) -> None:
    """Put an activated gradient into ``p.grad``: in place, or a new tensor where it is sparse."""
    if activated.layout == torch.strided and p.grad is not None:
        p.grad.copy_(activated)
    else:
        p.grad = activated


def largest_absolute(grads: Sequence[Tensor]) -> Tensor:
    """The largest absolute value in a list of gradients, NaN if one is; 0 for an empty list."""
    values = [v for v in map(real_values, grads) if v.numel()]
    if not values:
        return torch.tensor(0.0, device="cpu")
    device = values[0].device
    dtype = torch.promote_types(
        max((v.dtype for v in values), key=lambda d: d.itemsize), torch.float32
    )
    return torch.stack([v.abs().amax().to(device, dtype) for v in values]).amax()


def _raise_if_nonfinite(largest: Tensor, grads: Sequence[Tensor]) -> None:
    if on_any_process(~torch.isfinite(largest), grads).item():
        raise RuntimeError(
            "a gradient holds inf or NaN, so nothing was activated; under a GradScaler call "
            "scaler.unscale_(optimizer) first and let scaler.step skip the step, or pass "
            "error_if_nonfinite=False"
        )
