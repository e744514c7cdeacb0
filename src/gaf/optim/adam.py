"""Adam and AdamW on activated gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam as torch_adam
from torch.optim.optimizer import ParamsT, _use_grad_for_differentiable

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.functions.lift import real_view
from gaf.kernels.native import Tangled
from gaf.optim import adapt
from gaf.optim.auto import Auto
from gaf.optim.base import ActivatedOptimizer
from gaf.optim.select import implementation, kernels
from gaf.optim.settings import Group, formulas_of, is_active, kernel_of


class Adam(ActivatedOptimizer, torch.optim.Adam):
    """:class:`torch.optim.Adam` on f(gradient); an L2 ``weight_decay`` is added after f.

    Args:
        params, lr, betas, eps, weight_decay, amsgrad, foreach, maximize, capturable, differentiable,
            fused, decoupled_weight_decay: as in :class:`torch.optim.Adam`.
        activation: as in :class:`gaf.SGD`.
        placement: ``"gradient"``, the only one that is defined for Adam.

    Example:
        >>> import gaf, torch
        >>> opt = gaf.Adam([torch.zeros(3, requires_grad=True)], activation="tanh(0.2, 10)")

    Reference:
        Liu et al., "Activated Gradients for Deep Neural Networks", Section IV-A.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        activation: Activation | Auto | str | None = None,
        placement: str | None = None,
    ) -> None:
        self._begin(activation, placement)
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )

    def _placement(self, group: Group, placement: str | None) -> str:
        if placement not in (None, "gradient"):
            raise GafError(
                f'Adam takes placement="gradient" only, got {placement!r}: its step is a ratio of two '
                "running averages, already bounded near 1, and has no velocity for f to act on"
            )
        return "gradient"

    def _meaning(self, group: Group) -> str:
        if group["weight_decay"] != 0 and not group["decoupled_weight_decay"]:
            return "an eps and a weight decay divided by {slope}"
        return "an eps divided by {slope}"

    def _gather(self, *lists: Any) -> bool:
        """torch's ``_init_group``, where Auto looks up states.

        Under its own name torch.compile runs it instead of tracing it, and Auto would not see what it has
        made for a later group.
        """
        return torch.optim.Adam._init_group(self, *lists)

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Perform one step.

        Args:
            closure: evaluates the model again and returns the loss.
        """
        self._accelerator_graph_capture_health_check()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._begin_observation()
        actives = [is_active(group) for group in self.param_groups]  # all, before any is written to
        for number, (group, active) in enumerate(zip(self.param_groups, actives, strict=True)):
            params: list[Tensor] = []
            grads: list[Tensor] = []
            exp_avgs: list[Tensor] = []
            exp_avg_sqs: list[Tensor] = []
            max_exp_avg_sqs: list[Tensor] = []
            state_steps: list[Tensor] = []
            gather = self._gather if adapt.is_auto(group) else self._init_group
            has_complex = gather(
                group, params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps
            )
            state = [params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs]
            if not active:
                _torch_adam(self, group, grads, state, state_steps, has_complex, group["maximize"])
                continue
            factors = self._adapted(group, params, grads)
            if self._observing():
                self._observe(number, self._unscaled(grads), factors)
            if params:
                _activated_adam(self, group, grads, state, state_steps, factors)
        return loss


class AdamW(Adam, torch.optim.AdamW):
    """:class:`torch.optim.AdamW` on f(gradient); the weight decay does not pass through f.

    Args:
        params, lr, betas, eps, weight_decay, amsgrad, maximize, foreach, capturable, differentiable,
            fused: as in :class:`torch.optim.AdamW`.
        activation: as in :class:`gaf.SGD`.
        placement: ``"gradient"``, the only one that is defined for AdamW.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        activation: Activation | Auto | str | None = None,
        placement: str | None = None,
    ) -> None:
        self._begin(activation, placement)
        torch.optim.AdamW.__init__(
            self,
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )


def _activated_adam(
    optimizer: Adam,
    group: Group,
    grads: list[Tensor],
    state: list[list[Tensor]],
    state_steps: list[Tensor],
    factors: Tensor | None,
) -> None:
    """One group's step by the native kernels, or by torch's Adam on f(gradient)."""
    fused = kernels(implementation(group, state[0], grads, *filter(None, state[1:])))
    if fused is not None:
        params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs = state
        name, known = kernel_of(group)
        try:
            fused.adam(
                params,
                grads,
                exp_avgs,
                exp_avg_sqs,
                max_exp_avg_sqs,
                state_steps,
                name,
                known if factors is None else factors,
                lr=group["lr"],
                betas=group["betas"],
                eps=group["eps"],
                weight_decay=group["weight_decay"],
                decoupled_weight_decay=group["decoupled_weight_decay"],
                maximize=group["maximize"],
                **optimizer._loss_scale(),
            )
            return
        except Tangled:
            if group["fused"]:
                raise
    sign = -1 if group["maximize"] else 1
    fs = formulas_of(group, len(grads), factors)
    for part in _parts(grads):
        activated = [f(sign * g) for f, g in zip(fs[part], _widened(grads[part]), strict=True)]
        narrow = [tensors[part] for tensors in state]
        wide = [_widened(tensors) for tensors in narrow]
        _torch_adam(optimizer, group, activated, wide, state_steps[part], False, False)
        for narrow_tensors, wide_tensors in zip(narrow, wide, strict=True):
            _narrow_into(narrow_tensors, wide_tensors)


def _parts(tensors: list[Tensor]) -> Iterator[slice]:
    """Slices of a quarter of the elements or little more.

    torch's foreach Adam makes a list of intermediates beside f(gradient); by parts the two together take
    less memory than one list of the whole.
    """
    quarter = sum(t.numel() for t in tensors) / 4
    begin = elements = 0
    for end, t in enumerate(tensors, start=1):
        elements += t.numel()
        if elements >= quarter or end == len(tensors):
            yield slice(begin, end)
            begin, elements = end, 0


def _torch_adam(
    optimizer: Adam,
    group: Group,
    grads: list[Tensor],
    state: list[list[Tensor]],
    state_steps: list[Tensor],
    has_complex: bool,
    maximize: bool,
) -> None:
    """torch's own Adam with the flags of the group."""
    params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs = state
    torch_adam(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        state_steps,
        has_complex=has_complex,
        maximize=maximize,
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        amsgrad=group["amsgrad"],
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        foreach=group["foreach"],
        capturable=group["capturable"],
        differentiable=group["differentiable"],
        fused=group["fused"],
        decoupled_weight_decay=group["decoupled_weight_decay"],
        **optimizer._loss_scale(),
    )


def _widened(tensors: list[Tensor]) -> list[Tensor]:
    """Real views of the tensors, or float32 copies of those in half precision."""
    return [t.to(torch.promote_types(t.dtype, torch.float32)) for t in map(real_view, tensors)]


def _narrow_into(narrow: list[Tensor], wide: list[Tensor]) -> None:
    """Round float32 copies back into the tensors they were made from; views need nothing."""
    for t, copy in zip(map(real_view, narrow), wide, strict=True):
        if copy.dtype != t.dtype:
            t.copy_(copy)
