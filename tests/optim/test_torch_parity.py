"""With ``activation=None`` our optimizers are torch's, to the bit."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch

import gaf
from tests.pairs import pairs_first

STEPS = 200
IMPLEMENTATIONS = [
    {},
    {"foreach": False, "fused": False},
    {"foreach": True},
    {"fused": True},
]


def parameters() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (7,), (), (0, 2), (2, 3, 4)]
    params = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
    params.append(torch.randn(4, 6, generator=generator).t().requires_grad_())
    params.append(
        torch.randn(2, 3, 2, 2, generator=generator)
        .to(memory_format=torch.channels_last)
        .requires_grad_()
    )
    return params


@functools.cache
def gradients(shapes: tuple[torch.Size, ...]) -> list[list[torch.Tensor]]:
    """For each step."""
    generator = torch.Generator().manual_seed(1)
    return [[torch.randn(shape, generator=generator) for shape in shapes] for _ in range(STEPS)]


def train(optimizer_type, steps: int = STEPS, **kwargs):
    """Some steps on given gradients, a few of them missing; returns everything that could differ."""
    params = parameters()
    opt = optimizer_type(params, **kwargs)
    of_steps = gradients(tuple(p.shape for p in params))
    for step in range(steps):
        for number, (p, grad) in enumerate(zip(params, of_steps[step], strict=True)):
            # torch's fused SGD fails on a gradient that arrives later than the others
            late = number == 1 and step < 3 and not kwargs.get("fused")
            p.grad = None if late else torch.empty_like(p).copy_(grad)
        if isinstance(opt.param_groups[0]["lr"], float):
            opt.param_groups[0]["lr"] = 0.1 / (1 + step % 7)
        opt.step()
    return params, [opt.state[p] for p in params], [p.grad for p in params]


def same(ours, theirs) -> None:
    for our, their in zip(ours[0] + ours[2], theirs[0] + theirs[2], strict=True):
        assert our.stride() == their.stride()
        assert torch.equal(our, their)
    for our, their in zip(ours[1], theirs[1], strict=True):
        assert our.keys() == their.keys()
        for key in their:
            assert torch.equal(our[key], their[key]), key


@pairs_first(
    velocity=[{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}],
    weight_decay=[0.0, 0.01],
    maximize=[False, True],
    how=IMPLEMENTATIONS,
)
def test_sgd(velocity, weight_decay, maximize, how):
    same_sgd(weight_decay=weight_decay, maximize=maximize, **velocity, **how)


@pytest.mark.parametrize("how", IMPLEMENTATIONS, ids=str)
def test_sgd_with_dampening(how):
    same_sgd(momentum=0.9, dampening=0.2, weight_decay=0.01, **how)


def same_sgd(**hyper):
    same(train(gaf.SGD, lr=0.1, **hyper), train(torch.optim.SGD, lr=0.1, **hyper))


def same_adam(name, **hyper):
    same(train(getattr(gaf, name), **hyper), train(getattr(torch.optim, name), **hyper))


@pairs_first(
    name=["Adam", "AdamW"],
    weight_decay=[0.0, 0.01],
    amsgrad=[False, True],
    maximize=[False, True],
    how=IMPLEMENTATIONS,
)
def test_adam(name, weight_decay, amsgrad, maximize, how):
    same_adam(name, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize, **how)


@pytest.mark.parametrize("how", IMPLEMENTATIONS, ids=str)
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_adam_s_other_numbers(name, how):
    same_adam(name, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.01, **how)


@pytest.mark.parametrize("how", IMPLEMENTATIONS[:2] + IMPLEMENTATIONS[3:], ids=str)
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_tensor_lr(name, how):
    def run(module):
        return train(getattr(module, name), lr=torch.tensor(0.05), weight_decay=0.01, **how)

    same(run(gaf), run(torch.optim))


# Where torch's Adam has no such argument, its AdamW is that step.
DECOUPLED = {"decoupled_weight_decay"} - set(inspect.signature(torch.optim.Adam).parameters)


def test_adam_decoupled():
    hyper = {"decoupled_weight_decay": True, "weight_decay": 0.1}
    ours = train(gaf.Adam, **hyper)
    if DECOUPLED:
        same(ours, train(torch.optim.AdamW, weight_decay=0.1))
    else:
        same(ours, train(torch.optim.Adam, **hyper))


def test_one_changed_bit_is_seen():
    """The comparison itself can fail."""
    ours, theirs = train(gaf.SGD, 5, lr=0.1), train(torch.optim.SGD, 5, lr=0.1)
    same(ours, theirs)
    with torch.no_grad():
        ours[0][0][0, 0] = torch.nextafter(ours[0][0][0, 0], torch.tensor(9.0))
    with pytest.raises(AssertionError):
        same(ours, theirs)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_arguments(name):
    """Every argument of torch's, in its place and with its default; ours come after, by keyword only."""
    ours = dict(inspect.signature(getattr(gaf, name)).parameters)
    theirs = inspect.signature(getattr(torch.optim, name)).parameters
    own = ["activation", "placement", "decoupled_weight_decay" if name == "SGD" else "eps_hat"]
    own = [*(DECOUPLED if name == "Adam" else ()), *own]
    assert list(ours) == [*theirs, *own]
    for key, parameter in theirs.items():
        assert ours[key].kind == parameter.kind
        assert ours[key].default == parameter.default
    assert {ours[key].kind for key in own} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("SGD", {"lr": -1.0}),
        ("SGD", {"lr": torch.ones(2)}),
        ("SGD", {"momentum": -0.1}),
        ("SGD", {"weight_decay": -0.1}),
        ("SGD", {"nesterov": True}),
        ("SGD", {"fused": True, "foreach": True}),
        ("SGD", {"fused": True, "differentiable": True}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("Adam", {"eps": -1.0}),
        ("Adam", {"fused": True, "foreach": True}),
        ("Adam", {"lr": torch.tensor(0.1), "foreach": True}),
        ("AdamW", {"weight_decay": -1.0}),
    ],
    ids=str,
)
def test_same_refusals(name, bad):
    with pytest.raises((ValueError, RuntimeError)) as theirs:
        getattr(torch.optim, name)([torch.zeros(1)], **bad)
    with pytest.raises(theirs.type) as ours:
        getattr(gaf, name)([torch.zeros(1)], **bad)
    assert str(ours.value) == str(theirs.value)
