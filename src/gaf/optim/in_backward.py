"""The optimizer inside backward: each parameter steps as soon as its gradient is there, which is then freed.

A hook of each parameter, run once its gradient has been accumulated, calls the optimizer's own ``step`` with
that parameter alone in its groups, and drops the gradient. So few gradients exist at a time, and groups,
state, schedulers and checkpoints are those of the ordinary optimizer: f acts on one tensor at a time anyway.
What needs all gradients together is refused, since none of it could be right.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any, TypeVar

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions.lift import is_dtensor
from gaf.optim import _torch
from gaf.optim.base import GRAD_SCALER

O = TypeVar("O", bound=torch.optim.Optimizer)  # noqa: E741


def in_backward(optimizer: O) -> O:
    """Let an optimizer step each parameter inside ``backward()``, and free its gradient at once.

    Weights and state are those of ordinary training, to the bit. ``optimizer.step()`` stays where it is: it
    ends the iteration, and steps what still holds a gradient. Groups, schedulers, :func:`gaf.activate` and
    checkpoints work as before; an ordinary optimizer can load a checkpoint of this one.

    Refused, since a gradient is gone before it could be right: several backward passes before a step
    (accumulation), GradScaler, closures, step hooks, :class:`gaf.Guard`, :class:`gaf.Monitor`, and several
    processes unless the parameters are sharded (``fully_shard``). ``clip_grad_norm_`` finds no gradients;
    bound each element by an activation instead.

    Args:
        optimizer: any torch optimizer that keeps its state for each parameter, ours included.

    Returns:
        The same object.

    Example:
        >>> import gaf, torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
        >>> opt = gaf.in_backward(gaf.AdamW(model.parameters(), lr=1e-3, activation="arctan(0.1, 20)"))
        >>> model(torch.ones(3, 4)).sum().backward()
        >>> [p.grad for p in model.parameters()]
        [None, None, None, None]
        >>> opt.step()
    """
    _check(optimizer)
    optimizer.gaf_in_backward = InBackward(optimizer)  # type: ignore[attr-defined]
    return optimizer


class InBackward:
    """What steps the parameters of one optimizer, and knows which have stepped in this iteration."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        # weak: the parameters hold the hooks, and outlive the optimizer
        self._optimizer = weakref.ref(optimizer)
        self._groups: dict[Tensor, dict[str, Any]] = {}  # of each parameter, as of this iteration
        self._stepped: set[Tensor] = set()
        self._hooked: set[Tensor] = set()
        self._lock = threading.RLock()  # backward has a thread for each device
        self._class_step = type(optimizer).step
        self._hook(optimizer)
        _replace_step(optimizer, self)

    def _hook(self, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.requires_grad and p not in self._hooked:
                    p.register_post_accumulate_grad_hook(
                        functools.partial(_accumulated, weakref.ref(self))
                    )
                    self._hooked.add(p)

    def step_one(self, p: Tensor) -> None:
        """The step of a parameter whose gradient has just been accumulated."""
        optimizer = self._optimizer()
        if optimizer is None:
            return
        with self._lock:
            if not self._stepped:
                _check_iteration(optimizer)
                self._groups = {
                    q: group for group in optimizer.param_groups for q in group["params"]
                }
            if p in self._stepped:
                raise GafError(
                    "a parameter got a second gradient before step(), and has stepped by the first: inside "
                    "backward there is no accumulation over several backward passes, and no weight that "
                    "several checkpointed parts share; call step() after each backward()"
                )
            group = self._groups.get(p)
            if group is None:  # taken out of the optimizer
                return
            self._step([(group, [p])])
            self._stepped.add(p)
            p.grad = None

    def end_iteration(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What ``optimizer.step()`` does: step what still holds a gradient, and begin a new iteration."""
        optimizer = self._optimizer()
        if optimizer is None:
            raise ReferenceError("step was called after its optimizer was deleted")
        if any(value is not None for value in (*args, *kwargs.values())):
            raise GafError(
                "inside backward the gradients are gone when step() is called, so it takes no closure: call "
                "backward() and then step()"
            )
        if [vars(optimizer).pop(name) for name in GRAD_SCALER if name in vars(optimizer)]:
            raise GafError(
                "inside backward a GradScaler comes too late to unscale the gradients or to skip the step: "
                "use bfloat16 without a scaler, or the ordinary optimizer"
            )
        self._stepped.clear()
        late = [
            (group, [p for p in group["params"] if p.grad is not None])
            for group in optimizer.param_groups
        ]
        if any(params for _, params in late):
            _check_iteration(optimizer)
            self._step([(group, params) for group, params in late if params])
            for _, params in late:
                for p in params:
                    p.grad = None
        self._hook(optimizer)  # of parameters that were added, or frozen before
        _torch.mark_as_called(optimizer)

    def _step(self, parts: list[tuple[dict[str, Any], list[Tensor]]]) -> None:
        """The optimizer's own step, with nothing in its groups but these parameters."""
        optimizer = self._optimizer()
        assert optimizer is not None
        groups = optimizer.param_groups
        views = [{**group, "params": params} for group, params in parts]
        optimizer.param_groups = views
        try:
            self._class_step(optimizer)
        finally:
            optimizer.param_groups = groups
        for view, (group, _) in zip(views, parts, strict=True):
            changed = [key for key in view if key != "params" and view[key] is not group.get(key)]
            if changed:
                raise GafError(
                    f"{type(optimizer).__name__} keeps {', '.join(changed)} for a group as a whole, which "
                    "the step of each parameter would change: it cannot run inside backward"
                )


def _accumulated(reference: weakref.ref[InBackward], p: Tensor) -> None:
    inside = reference()
    if inside is not None:
        inside.step_one(p)


def _replace_step(optimizer: torch.optim.Optimizer, inside: InBackward) -> None:
    """Let ``step`` end the iteration; a scheduler may wrap it, and asks a bound method for ``__func__``."""

    @functools.wraps(type(optimizer).step)
    def ending(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        inside.end_iteration(args, kwargs)

    @functools.wraps(type(optimizer).step)
    def step(*args: Any, **kwargs: Any) -> None:
        inside.end_iteration(args, kwargs)

    step.__func__ = ending  # type: ignore[attr-defined]
    optimizer.step = step  # type: ignore[assignment]
    # GradScaler then calls step() as it is, which refuses it in a sentence.
    optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]


def _check(optimizer: torch.optim.Optimizer) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"in_backward takes a torch optimizer, got {type(optimizer).__name__}")
    if "gaf_in_backward" in vars(optimizer):
        raise GafError("the optimizer runs inside backward already")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise GafError("LBFGS needs all gradients together, so it cannot run inside backward")
    if any(group.get("differentiable") for group in (optimizer.defaults, *optimizer.param_groups)):
        raise GafError(
            "a differentiable step needs its gradients later: leave differentiable=False"
        )
    _check_iteration(optimizer)


def _check_iteration(optimizer: torch.optim.Optimizer) -> None:
    """Refuse what needs all gradients together; it may have been added since."""
    if "gaf_guard" in vars(optimizer):
        raise GafError(
            "a guard decides by all gradients together, and an optimizer inside backward has taken most of "
            "its steps by then: use one of the two"
        )
    if vars(optimizer).get("gaf_monitor") is not None:
        raise GafError(
            "a monitor records all gradients of a step together, which never exist inside backward: watch "
            "the ordinary optimizer"
        )
    if any(set(hooks) - {"gaf"} for hooks in _torch.hooks(optimizer)[:2]):
        raise GafError(
            "the optimizer has step hooks, which inside backward would run once for each parameter: "
            "remove them"
        )
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if distributed.get_world_size() > 1 and not all(map(is_dtensor, params)):
        raise GafError(
            "inside backward a parameter steps before its gradient is averaged over the processes (as "
            "DistributedDataParallel does at the end): shard the model with fully_shard, or use the ordinary "
            "optimizer"
        )
