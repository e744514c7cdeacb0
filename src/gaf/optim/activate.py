"""f in front of any torch optimizer, or behind it.

On the gradient ``p.grad`` is activated in place: ``step()`` does what ``gaf.activate_grad_`` right before it
would. On the update f acts on what the step has changed: the weights are copied before it, and after it
w is the copy plus f(w - copy). The work is done by step hooks, which also reach optimizers whose ``step`` a
scheduler has wrapped; the hooks are made part of the optimizer's pickled state, since torch drops hooks on
copying.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch

from gaf.common.errors import GafError
from gaf.functions import Activation, Adaptive, as_activation
from gaf.functions.lift import refuse_partial
from gaf.optim import _torch, adapt, settings
from gaf.optim.base import ActivatedOptimizer, unscaled
from gaf.optim.description import Rule
from gaf.optim.grad import write_grad
from gaf.optim.observation import Sample

O = TypeVar("O", bound=torch.optim.Optimizer)  # noqa: E741

OWN = ("activation", "placement")  # what a group may ask for

_HOOK = "gaf"  # our key among torch's numbered hooks: it cannot collide after unpickling


def activate(optimizer: O, activation: Activation | str, *, placement: str | None = None) -> O:
    """Put f in front of an optimizer, or behind it.

    A parameter group made with ``"activation": None`` (or another function, or a ``"placement"``) keeps its
    own. On the gradient ``p.grad`` is activated in place at every step, after other step pre-hooks registered
    earlier, with closures too, and on unscaled gradients under :class:`torch.amp.GradScaler`, fused
    optimizers included. On the update the step itself is what f acts on, weight decay included; it costs a
    copy of the weights, and ``p.grad`` is left alone.

    Args:
        optimizer: any torch optimizer; for SGD, Adam and AdamW prefer :class:`gaf.SGD` and its kin,
            which leave ``p.grad`` alone and cost no copy.
        activation: the function, or its name; or :class:`gaf.Auto`.
        placement: ``"gradient"`` (unset) or ``"update"``.

    Returns:
        The same object; :func:`gaf.deactivate` undoes it.

    Example:
        >>> import gaf, torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> opt = gaf.activate(torch.optim.RMSprop([w]), gaf.Arctan(0.1, 20))
        >>> isinstance(opt, torch.optim.RMSprop)
        True
    """
    f = as_activation(activation)
    if f is None:
        raise TypeError("activate needs an activation such as gaf.Arctan(0.1, 20), got None")
    return activate_groups(optimizer, f, placement)


def activate_groups(optimizer: O, f: Activation | None, placement: str | None = None) -> O:
    """:func:`activate`, where f may be None: then only groups that ask for a function have one."""
    _check(optimizer)
    usual = {"activation": f, "placement": placement}
    own = [_own({**usual, **group}, optimizer) for group in optimizer.param_groups]
    _refuse_line_search(
        group
        for group, (_, where) in zip(optimizer.param_groups, own, strict=True)
        if where == "gradient"
    )
    for group, (own_f, where) in zip(optimizer.param_groups, own, strict=True):
        _put(group, own_f, where)
    # For groups added later; an adaptive one is bound to each.
    settings.store(optimizer.defaults, f, ANY.place({}, placement))
    ours = (_before_step, _after_step, _before_load, _after_load)
    for hooks, hook in zip(_torch.hooks(optimizer), ours, strict=True):
        hooks[_HOOK] = hook
    for name in _METHODS:
        setattr(optimizer, name, _Method(name, optimizer))
    return optimizer


def deactivate(optimizer: O) -> O:
    """Undo :func:`gaf.activate`; the optimizer is torch's own again."""
    if not is_activated(optimizer):
        raise GafError("the optimizer was not activated by gaf.activate")
    unhook(optimizer)
    for group in (*optimizer.param_groups, optimizer.defaults):
        settings.remove(group)
    for state in optimizer.state.values():
        state.pop(adapt.KEY, None)
    return optimizer


def unhook(optimizer: torch.optim.Optimizer) -> None:
    """Let f act no longer; groups and state keep what they say of it, for a checkpoint."""
    for hooks in _torch.hooks(optimizer):
        hooks.pop(_HOOK, None)
    monitor = vars(optimizer).get("gaf_monitor")
    if monitor is not None:
        monitor.detach()
    for name in (*_METHODS, "_gaf_weights"):
        optimizer.__dict__.pop(name, None)
    _forget_step(optimizer)


def _refusal(group: Mapping[str, Any], placement: str, f: Activation | None) -> str | None:
    if placement in ANY.placements:
        return None
    return (
        f"placement {placement!r} is where the learning rate multiplies, which is known of gaf.SGD, "
        "gaf.Adam, gaf.AdamW and gaf.Lion only: for another optimizer take 'gradient' or 'update'"
    )


# What is offered of any optimizer: f on the gradient, or on what the step has changed.
ANY = Rule(
    name="any",
    arguments=(),
    placements=("gradient", "update"),
    usual_placement=lambda group: "gradient",
    control=lambda group, placement: {"lr": 1} if placement == "update" else {},
    refusal=_refusal,
)


def _own(
    group: settings.Group, optimizer: torch.optim.Optimizer
) -> tuple[Activation | None, str | None]:
    """The activation that a group asks for, and where."""
    own = as_activation(group["activation"])
    placement = ANY.place(group, group["placement"])
    if isinstance(own, Adaptive):
        own = own.bound_to({**optimizer.defaults, **group})
    return own, placement


def _put(group: settings.Group, f: Activation | None, placement: str | None) -> None:
    """Write f into a group, in place of what it asked for."""
    for key in OWN:
        group.pop(key, None)
    settings.store(group, f, placement)


def is_activated(optimizer: torch.optim.Optimizer) -> bool:
    """Whether :func:`gaf.activate` acts on the optimizer."""
    return _HOOK in getattr(optimizer, _torch.HOOKS[0], ())


def _check(optimizer: torch.optim.Optimizer) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"activate takes a torch optimizer, got {type(optimizer).__name__}")
    if isinstance(optimizer, ActivatedOptimizer):
        raise GafError(
            f"gaf.{type(optimizer).__name__} has an activation of its own: pass it as activation= to "
            "the constructor"
        )
    if not _torch.is_hooked(type(optimizer)):
        raise GafError(
            f"{type(optimizer).__name__} has not called torch.optim.Optimizer.__init__, so its step runs no "
            "hooks: if it wraps another optimizer, call gaf.activate on that one"
        )
    if is_activated(optimizer):
        raise GafError("the optimizer is activated already; call gaf.deactivate first")
    if any(group.get("differentiable") for group in (optimizer.defaults, *optimizer.param_groups)):
        raise GafError(
            "activate overwrites p.grad, which autograd cannot follow through a step: leave "
            "differentiable=False, or use gaf.SGD or gaf.Adam with differentiable=True"
        )


def _refuse_line_search(groups: Iterable[settings.Group]) -> None:
    if any(group.get("line_search_fn") for group in groups):
        raise GafError(
            "LBFGS with a line search compares losses with slopes, and activated gradients are not "
            "the slopes of that loss: use line_search_fn=None, or placement='update'"
        )


def _getstate(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The optimizer's state with our hooks in it, for pickle and deepcopy."""
    kept = {
        name: type(hooks)({_HOOK: hooks[_HOOK]})
        for name, hooks in zip(_torch.HOOKS, _torch.hooks(optimizer), strict=True)
    }
    return {
        **type(optimizer).__getstate__(optimizer),
        **kept,
        **{name: vars(optimizer)[name] for name in _METHODS},
    }


def _add_param_group(optimizer: torch.optim.Optimizer, param_group: settings.Group) -> None:
    """torch's own, for a group that may carry an ``activation``."""
    if isinstance(param_group, dict):
        group = {**optimizer.defaults, **param_group}
        usual = {"activation": settings.activation_of(group), "placement": group["gaf_placement"]}
        f, placement = _own({**usual, **param_group}, optimizer)
        if placement == "gradient":
            _refuse_line_search([group])
        _put(param_group, f, placement)
    type(optimizer).add_param_group(optimizer, param_group)


# Replaced on the instance, since only it is activated and not its class.
_METHODS = {"__getstate__": _getstate, "add_param_group": _add_param_group}


class _Method:
    """One of these methods, bound to an optimizer that it does not keep alive; copied, to the copy."""

    def __init__(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        self.name = name
        self.optimizer = weakref.ref(optimizer)

    def __call__(self, *args: Any) -> Any:
        optimizer = self.optimizer()
        if optimizer is None:
            raise ReferenceError(f"{self.name} was called after its optimizer was deleted")
        return _METHODS[self.name](optimizer, *args)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Method, (self.name, self.optimizer())


def _before_step(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    if kwargs.get("grad_scaler") is not None:
        raise RuntimeError(
            f"{type(optimizer).__name__} unscales gradients inside its own step, where no activation "
            "can see them: call scaler.unscale_ and step the optimizer without grad_scaler"
        )
    _keep_weights(optimizer)
    closure = kwargs.get("closure", args[1] if len(args) > 1 and callable(args[1]) else None)
    if closure is None:
        if any(callable(value) for value in (*args[2:], *kwargs.values())):
            raise TypeError(
                f"{type(optimizer).__name__}.step takes a function that is not its closure: whether it "
                "computes gradients cannot be known; call gaf.activate_grad_ yourself instead"
            )
        if not _done(optimizer):
            _forget_step(optimizer)
            _activate_grads(optimizer)
        return None
    _forget_step(optimizer)
    acting = _activated_closure(optimizer, closure)
    if "closure" in kwargs:
        return args, {**kwargs, "closure": acting}
    return (*args[:1], acting, *args[2:]), kwargs


def _activated_closure(
    optimizer: torch.optim.Optimizer, closure: Callable[[], Any]
) -> Callable[[], Any]:
    """The user's closure, then f on the gradients it has computed."""

    def acting() -> Any:
        loss = closure()
        if not _done(optimizer):
            _activate_grads(optimizer)
        return loss

    return acting


def _actings(optimizer: torch.optim.Optimizer, placement: str) -> list[settings.Acting | None]:
    """What acts in each group in one place."""
    actings = [settings.resolve(group, ANY) for group in optimizer.param_groups]
    return [
        None if acting is None or acting.placement != placement else acting for acting in actings
    ]


@torch.no_grad()
def _keep_weights(optimizer: torch.optim.Optimizer) -> None:
    """Copy the weights whose change f will act on; those of a step that calls its parent's, once more."""
    optimizer.__dict__.pop("_gaf_weights", None)
    actings = _actings(optimizer, "update")
    if any(acting is not None for acting in actings):
        optimizer._gaf_weights = [  # type: ignore[attr-defined]
            {} if acting is None else {p: (p.clone(), p.grad) for p in group["params"]}
            for group, acting in zip(optimizer.param_groups, actings, strict=True)
        ]


@torch.no_grad()
def _activate_change(optimizer: torch.optim.Optimizer) -> None:
    """Take each weight to where it was, plus f of what the step has added."""
    kept = optimizer.__dict__.pop("_gaf_weights")
    monitor = getattr(optimizer, "gaf_monitor", None)
    found_inf = getattr(optimizer, "found_inf", None)
    actings = _actings(optimizer, "update")
    for number, (group, acting, weights) in enumerate(
        zip(optimizer.param_groups, actings, kept, strict=True)
    ):
        if acting is None:
            continue
        # a closure may have made gradients, and a step may have dropped them
        owners = [p for p, (_, grad) in weights.items() if not (grad is None and p.grad is None)]
        olds = [weights[p][0] for p in owners]
        wide = [torch.promote_types(p.dtype, torch.float32) for p in owners]
        changes = [p.to(t) - old for p, t, old in zip(owners, wide, olds, strict=True)]
        factors = None
        if acting.adaptive and owners:
            factors = _adapted(optimizer, acting, group, owners, changes, found_inf)
        if monitor is not None and number in monitor.open:
            sample = Sample(changes, owners, monitor.sample, monitor.per == "tensor")
            inputs = sample(changes, owners)
            monitor.observe(number, acting.activation, inputs, sample=sample, factors=factors)
        fs = acting.formulas(len(owners), factors)
        for p, old, change, f in zip(owners, olds, changes, fs, strict=True):
            p.copy_(old + f(change))


@torch.no_grad()
def _activate_grads(optimizer: torch.optim.Optimizer) -> None:
    actings = _actings(optimizer, "gradient")
    for group, acting in zip(optimizer.param_groups, actings, strict=True):
        if acting is not None:  # all of them before any is activated
            refuse_partial([p.grad for p in group["params"]])
    # GradScaler hands a fused optimizer scaled gradients, the scale, and whether it found an inf.
    scale = getattr(optimizer, "grad_scale", None)
    found_inf = getattr(optimizer, "found_inf", None)
    if scale is not None:  # 1 and not None: were the step to raise, GradScaler would multiply by it
        optimizer._gaf_grad_scale = scale  # type: ignore[attr-defined]
        optimizer.grad_scale = torch.ones_like(scale)  # type: ignore[attr-defined]
    if found_inf is not None:
        every = (p for group in optimizer.param_groups for p in group["params"])
        optimizer._gaf_new = [p for p in every if p not in optimizer.state]  # type: ignore[attr-defined]
    monitor = getattr(optimizer, "gaf_monitor", None)
    for number, (group, acting) in enumerate(zip(optimizer.param_groups, actings, strict=True)):
        owners = [p for p in group["params"] if p.grad is not None]
        grads = [p.grad if scale is None else unscaled(p.grad, scale) for p in owners]
        factors = None
        if acting is not None and acting.adaptive and owners:
            factors = _adapted(optimizer, acting, group, owners, grads, found_inf)
        if acting is not None and monitor is not None:
            monitor.observe(number, acting.activation, factors=factors)
        if not owners:
            continue
        count = len(owners)
        fs = [None] * count if acting is None else acting.formulas(count, factors)
        for p, g, f in zip(owners, grads, fs, strict=True):
            if f is not None:
                g = f(-g).neg() if group.get("maximize") else f(g)
            if found_inf is not None:  # a step that will be skipped leaves the gradient as it was
                g = torch.where(found_inf.to(g.device) > 0, p.grad, g)
            if g is not p.grad:
                write_grad(p, g)
    if not torch.compiler.is_compiling():
        optimizer._gaf_done = _Marks(optimizer)  # type: ignore[attr-defined]


@_torch.disable_dynamo  # torch.compile takes the state for what it was before torch's own step made it
def _adapted(
    optimizer: torch.optim.Optimizer,
    acting: settings.Acting,
    group: settings.Group,
    owners: list[torch.Tensor],
    grads: list[torch.Tensor],
    found_inf: torch.Tensor | None,
) -> torch.Tensor:
    """Let an adaptive activation see the gradients; returns each tensor's values.

    Its states wait for the end of the step: torch's optimizers take a parameter that has any state for one
    whose own state exists.
    """
    waiting = optimizer.__dict__.setdefault("_gaf_auto", {})
    kept = optimizer.state
    states = [waiting.get(p, kept[p].get(adapt.KEY) if p in kept else None) for p in owners]
    f = acting.activation
    old = adapt.stacked(owners, states)
    new, factors = adapt.adapt(f, group, owners, grads, (), old, skipped=found_inf)
    waiting.update(zip(owners, new.unbind(), strict=True))
    return factors


def _done(optimizer: torch.optim.Optimizer) -> bool:
    """Whether f has acted on these gradients: a step that calls its parent's step asks twice."""
    done = optimizer.__dict__.get("_gaf_done")
    if done is None or torch.compiler.is_compiling():
        return False
    return done.marks == _Marks(optimizer).marks


class _Marks:
    """Which gradients there are, and how often each has been written to.

    The first is held: a closure that frees its gradients may find the same ids for the next ones.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        every = (p.grad for group in optimizer.param_groups for p in group["params"])
        grads = [g for g in every if g is not None]
        self.first = grads[0] if grads else None
        self.marks = [(id(g), g._version) for g in grads]


def _forget_step(optimizer: torch.optim.Optimizer) -> None:
    """Drop what a step, or a loading, that raised has left behind."""
    for name in ("_gaf_done", "_gaf_auto", "_gaf_new", "_gaf_grad_scale", "_gaf_saved"):
        optimizer.__dict__.pop(name, None)


def _after_step(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    optimizer.__dict__.pop("_gaf_done", None)
    if "_gaf_weights" in optimizer.__dict__:
        _activate_change(optimizer)
    if "_gaf_grad_scale" in optimizer.__dict__:
        optimizer.grad_scale = optimizer.__dict__.pop("_gaf_grad_scale")  # type: ignore[attr-defined]
    new = [p for p in optimizer.__dict__.pop("_gaf_new", ()) if p in optimizer.state]
    # A fused step that is skipped leaves the state it has made unwritten (torch's SGD: whatever was in
    # memory). It is read from the device only on the step that makes the state.
    if new and _skipped(optimizer):
        for p in new:
            del optimizer.state[p]
    if "_gaf_auto" in optimizer.__dict__:
        _keep(optimizer)


def _skipped(optimizer: torch.optim.Optimizer) -> bool:
    """Whether GradScaler found an inf; asks the device."""
    found_inf = getattr(optimizer, "found_inf", None)
    return found_inf is not None and found_inf.item() > 0


@_torch.disable_dynamo
def _keep(optimizer: torch.optim.Optimizer) -> None:
    """Put Auto's states, which have waited for the end of the step, beside torch's."""
    waiting = optimizer.__dict__.pop("_gaf_auto", {})
    fresh = any(
        p not in optimizer.state or adapt.KEY not in optimizer.state[p] for p in waiting
    )  # in others a skipped step has changed nothing
    if waiting and not (fresh and _skipped(optimizer)):
        adapt.write([optimizer.state[p] for p in waiting], torch.stack(list(waiting.values())))


def _before_load(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    _refuse_line_search(
        group for group in state_dict["param_groups"] if group.get("gaf_placement") != "update"
    )
    state_dict = settings.adapt_checkpoint(optimizer.param_groups, state_dict)
    optimizer._gaf_saved = adapt.saved(optimizer, state_dict)  # type: ignore[attr-defined]
    return state_dict


def _after_load(optimizer: torch.optim.Optimizer) -> None:
    for p, state in optimizer.__dict__.pop("_gaf_saved", {}).items():
        optimizer.state[p][adapt.KEY] = state
