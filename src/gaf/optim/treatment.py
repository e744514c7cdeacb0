"""What is done to gradients before f: centralized, clipped or normalized, by a hook of any optimizer.

Under :class:`torch.amp.GradScaler` a fused optimizer is handed scaled gradients and the scale. All of this
commutes with a scale: a threshold times the scale does to scaled gradients what it does to true ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from gaf.common.errors import GafError

TINY = 1e-30  # a gradient that is 0 has no direction, and stays 0


@dataclass(frozen=True)
class Treatment:
    """A step hook; the gradients of all groups of an optimizer are treated together.

    Args:
        centralize: take from each output's weights the mean of their gradient (Yong et al., 2020).
        clip_value: the largest absolute value of an element.
        clip_norm: the largest norm of all gradients together.
        normalize: the norm that all gradients together are given.

    Example:
        >>> w = torch.ones(2, requires_grad=True)
        >>> opt = torch.optim.SGD([w], lr=1.0)
        >>> Treatment(clip_norm=1.0).attach(opt)
        >>> (3 * w[0] + 4 * w[1]).backward()
        >>> opt.step()
        >>> w.detach()
        tensor([0.4000, 0.2000])
    """

    centralize: bool = False
    clip_value: float | None = None
    clip_norm: float | None = None
    normalize: float | None = None

    def __post_init__(self) -> None:
        if [self.clip_value, self.clip_norm, self.normalize].count(None) < 2:
            raise GafError("set one of clip_value, clip_norm and normalize, not two")

    def __bool__(self) -> bool:
        return self != Treatment()

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Act before each step; before f, where :func:`gaf.activate` is called after this."""
        if self:
            optimizer.register_step_pre_hook(self._before_step)

    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        # args begin with the optimizer itself; a closure computes the gradients inside the step
        closure = kwargs.get("closure", args[1] if len(args) > 1 and callable(args[1]) else None)
        if closure is None:
            self.treat(optimizer)
            return None
        treated = self._after(closure, optimizer)
        if "closure" in kwargs:
            return args, {**kwargs, "closure": treated}
        return (*args[:1], treated, *args[2:]), kwargs

    def _after(
        self, closure: Callable[[], Any], optimizer: torch.optim.Optimizer
    ) -> Callable[[], Any]:
        def treated() -> Any:
            loss = closure()
            self.treat(optimizer)
            return loss

        return treated

    @torch.no_grad()
    def treat(self, optimizer: torch.optim.Optimizer) -> None:
        """Change the gradients as they are now, in place."""
        found_inf: Tensor | None = getattr(optimizer, "found_inf", None)
        if found_inf is not None and found_inf.item() > 0:
            return  # the step will be skipped
        grad_scale: Tensor | None = getattr(optimizer, "grad_scale", None)
        scale = 1.0 if grad_scale is None else grad_scale.item()
        params = [p for group in optimizer.param_groups for p in group["params"]]
        params = [p for p in params if p.grad is not None]
        if self.centralize:
            for p in params:
                if p.ndim > 1:
                    p.grad -= p.grad.mean(dim=tuple(range(1, p.ndim)), keepdim=True)
        if self.clip_value is not None:
            clip_grad_value_(params, self.clip_value * scale)
        elif self.clip_norm is not None:
            clip_grad_norm_(params, self.clip_norm * scale)
        elif self.normalize is not None:
            norm = clip_grad_norm_(params, math.inf)  # which cuts nothing, and gives the norm
            factor = self.normalize * scale / _whole(norm).clamp(min=TINY)
            for p in params:
                p.grad *= factor.to(p.device)


def _whole(norm: Tensor) -> Tensor:
    """A norm over all shards, where gradients have any."""
    whole = getattr(norm, "full_tensor", None)
    return norm if whole is None else whole()
