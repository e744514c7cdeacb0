"""What the optimizer tests share: a small task, every optimizer, and comparison to the bit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

import gaf

BUILT_IN = ("arctan", "tanh", "log")  # other tests may register more; these are always there
OTHERS = (
    *("softsign(0.3, 7)", "algebraic(0.3, 7)", "asinh(0.3, 7)", "line(2.1)", "sign(0.03)"),
    *("clip(0.1)", "biclip(0.002, 0.1)", "tanh(0.3, 7) + log(0.2, 5)"),
)
F = gaf.Arctan(0.1, 20.0)

# Those that adapt. Auto's curves but the arctan are its controls.
CONTROLS = ("line", "clip", "sign")
AUTOS = ("auto", *(f"auto(function={name})" for name in CONTROLS))
SCALED = ("scaled(0.3, 3)", "scaled(0.3, 3, by=max, decay=0.9, keep=1, function=arctan)")
ADAPTIVE = (*AUTOS, "quantileclip", *SCALED)

# Ours, each to be called with parameters and activation=.
OURS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": functools.partial(gaf.SGD, lr=0.1),
    "sgd-gradient": functools.partial(
        gaf.SGD, lr=0.1, momentum=0.9, weight_decay=0.01, placement="gradient"
    ),
    "sgd-momentum": functools.partial(
        gaf.SGD, lr=0.1, momentum=0.9, weight_decay=0.01, placement="momentum"
    ),
    "sgd-update": functools.partial(
        gaf.SGD, lr=0.1, momentum=0.9, weight_decay=0.01, placement="update"
    ),
    "sgd-nesterov-foreach": functools.partial(
        gaf.SGD, lr=0.1, momentum=0.9, nesterov=True, foreach=True
    ),
    "sgd-decoupled": functools.partial(
        gaf.SGD, lr=0.1, weight_decay=0.01, decoupled_weight_decay=True, placement="momentum"
    ),
    "adam": functools.partial(gaf.Adam, lr=0.01, weight_decay=0.01),
    "adam-momentum": functools.partial(
        gaf.Adam, lr=0.01, weight_decay=0.01, placement="momentum", eps=0
    ),
    "adamw-update": functools.partial(gaf.AdamW, lr=0.01, placement="update"),
    "adamw": functools.partial(gaf.AdamW, lr=0.01, amsgrad=True, foreach=True),
    "lion": functools.partial(gaf.Lion, lr=0.01, weight_decay=0.01),
}

# torch's, to be called with parameters and then activated.
FUSED: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd-fused": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, fused=True),
    "adam-fused": functools.partial(torch.optim.Adam, lr=0.01, weight_decay=0.01, fused=True),
    "adamw-fused": functools.partial(torch.optim.AdamW, lr=0.01, fused=True),
    "adagrad-fused": functools.partial(torch.optim.Adagrad, lr=0.05, fused=True),
}
FOREIGN: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "rmsprop": functools.partial(torch.optim.RMSprop, lr=0.01, momentum=0.5),
    "adagrad": functools.partial(torch.optim.Adagrad, lr=0.05),
    "nadam": functools.partial(torch.optim.NAdam, lr=0.01),
    "asgd": functools.partial(torch.optim.ASGD, lr=0.05),
    "rprop": functools.partial(torch.optim.Rprop, lr=0.01),
    "sgd-single": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=False),
    "sgd-foreach": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=True),
    "adam-single": functools.partial(torch.optim.Adam, lr=0.01, foreach=False),
    "adam-foreach": functools.partial(torch.optim.Adam, lr=0.01, foreach=True),
    "adamw-single": functools.partial(torch.optim.AdamW, lr=0.01, foreach=False),
    "adamw-foreach": functools.partial(torch.optim.AdamW, lr=0.01, foreach=True),
    **FUSED,
}
EVERY = (
    *(f"ours:{name}" for name in OURS),
    *(f"activated:{name}" for name in FOREIGN),
    "activated:rmsprop@update",
)


def make(name: str, params: Any, activation: gaf.Activation | str = F) -> torch.optim.Optimizer:
    """An optimizer of ``EVERY`` with an activation on."""
    kind, _, which = name.partition(":")
    if kind == "ours":
        return OURS[which](params, activation=activation)
    which, _, placement = which.partition("@")
    return gaf.activate(FOREIGN[which](params), activation, placement=placement or None)


def make_model(seed: int = 0) -> nn.Sequential:
    """A small network with the same weights for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def batch(step: int) -> tuple[Tensor, Tensor]:
    """The inputs and targets of a step."""
    generator = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(16, 5, generator=generator)
    return x, torch.randn(16, 3, generator=generator)


def loss_of(model: nn.Module, step: int) -> Tensor:
    x, y = batch(step)
    return ((model(x) - y) ** 2).mean()


def backward(model: nn.Module, step: int) -> Tensor:
    """Fresh gradients for a step; returns the loss."""
    model.zero_grad(set_to_none=True)
    loss = loss_of(model, step)
    loss.backward()
    return loss


def train(model: nn.Module, opt: torch.optim.Optimizer, steps: range | int) -> None:
    """Plain training."""
    for step in range(steps) if isinstance(steps, int) else steps:
        backward(model, step)
        opt.step()


def parameters_of(opt: torch.optim.Optimizer) -> Iterator[Tensor]:
    for group in opt.param_groups:
        yield from group["params"]


def snapshot(opt: torch.optim.Optimizer) -> dict[str, Any]:
    """Parameters, gradients and state, cloned."""
    params = list(parameters_of(opt))
    return {
        "params": [_clone(p) for p in params],
        "grads": [_clone(p.grad) for p in params],
        "state": [_clone(dict(opt.state[p])) if p in opt.state else {} for p in params],
    }


def grads_of(opt: torch.optim.Optimizer) -> list[Tensor | None]:
    return [_clone(p.grad) for p in parameters_of(opt)]


def _clone(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _clone(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_clone, value))
    return value


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Equal to the bit: values, signs of zeros, NaN, dtypes, shapes, keys."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        assert (a.dtype, a.shape, a.layout) == (b.dtype, b.shape, b.layout), where
        if a.layout == torch.sparse_coo:
            a, b = a.coalesce(), b.coalesce()
            assert_same(a.indices(), b.indices(), f"{where}.indices")
            assert_same(a.values(), b.values(), f"{where}.values")
            return
        assert torch.equal(_bytes(a), _bytes(b)), f"{where}: {a} is not {b}"
    elif isinstance(a, dict):
        assert isinstance(b, dict), where
        assert a.keys() == b.keys(), f"{where}: {a.keys()} are not {b.keys()}"
        for key in a:
            assert_same(a[key], b[key], f"{where}[{key!r}]")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    else:
        assert a == b, f"{where}: {a} is not {b}"


def _bytes(x: Tensor) -> Tensor:
    x = x.detach().resolve_conj()
    x = torch.view_as_real(x) if x.is_complex() else x
    return x.reshape(-1).view(torch.uint8)
