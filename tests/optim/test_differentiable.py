"""differentiable=True: autograd follows f and the step; finite differences in float64 are the judge."""

from __future__ import annotations

import functools

import pytest
import torch

import gaf
from tests.optim.helpers import BUILT_IN

W0 = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
PULL = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)


def descend(make, steps, w0, *hyper):
    """The weights after some steps on a fixed loss, as a function of where they began."""
    w = w0.clone()
    w.retain_grad()  # not a leaf, and the optimizer reads w.grad
    opt = make([w], *hyper)
    for _ in range(steps):
        x = w.clone()  # the step writes into w, and the loss's graph must keep its values
        loss = (0.05 * x**4 + 0.1 * PULL * x**2 - 0.1 * PULL * x).sum()
        (w.grad,) = torch.autograd.grad(loss, w, create_graph=True)
        opt.step()
    return w


def check(make, *hyper, steps=3):
    inputs = [W0.clone().requires_grad_()]
    inputs += [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in hyper]
    result = descend(make, steps, *inputs)
    assert result.requires_grad
    assert torch.autograd.gradcheck(functools.partial(descend, make, steps), tuple(inputs))


SGD = [
    *({"placement": placement} for placement in gaf.PLACEMENTS),
    {"placement": "momentum", "momentum": 0.9, "decoupled_weight_decay": True},
    *({"placement": placement, "momentum": 0.9} for placement in gaf.PLACEMENTS),
    *({"placement": p, "momentum": 0.9, "nesterov": True} for p in gaf.PLACEMENTS),
    *({"placement": p, "momentum": 0.5, "dampening": 0.2} for p in gaf.PLACEMENTS),
    {"placement": "gradient", "momentum": 0.9, "maximize": True},
]


@pytest.mark.parametrize("function", BUILT_IN)
@pytest.mark.parametrize("hyper", SGD, ids=lambda h: "-".join(map(str, h.values())))
def test_sgd_in_the_first_weights(hyper, function):
    f = gaf.parse(f"{function}(0.5, 4)")
    check(
        lambda params: gaf.SGD(
            params, lr=0.3, weight_decay=0.1, differentiable=True, activation=f, **hyper
        )
    )


@pytest.mark.parametrize("function", BUILT_IN)
@pytest.mark.parametrize("hyper", SGD, ids=lambda h: "-".join(map(str, h.values())))
def test_sgd_in_the_learning_rate(hyper, function):
    f = gaf.parse(f"{function}(0.5, 4)")
    check(
        lambda params, lr: gaf.SGD(params, lr=lr, differentiable=True, activation=f, **hyper), 0.3
    )


@pytest.mark.parametrize("hyper", SGD, ids=lambda h: "-".join(map(str, h.values())))
def test_sgd_in_the_weight_decay(hyper):
    check(
        lambda params, lr, decay: gaf.SGD(
            params,
            lr=lr,
            weight_decay=decay,
            differentiable=True,
            activation=gaf.Log(0.5, 4),
            **hyper,
        ),
        0.3,
        0.1,
    )


@pytest.mark.parametrize("function", BUILT_IN)
@pytest.mark.parametrize("cls", [gaf.Adam, gaf.AdamW])
@pytest.mark.parametrize("amsgrad", [False, True], ids=["", "amsgrad"])
@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_adam_in_the_first_weights(cls, function, amsgrad, placement):
    f = gaf.parse(f"{function}(0.5, 4)")
    check(
        lambda params: cls(
            params,
            lr=0.1,
            eps=1e-3,
            weight_decay=0.1,
            amsgrad=amsgrad,
            differentiable=True,
            activation=f,
            placement=placement,
        ),
        steps=1 if amsgrad else 3,  # torch's amsgrad overwrites what a second step's autograd needs
    )


@pytest.mark.parametrize("cls", [gaf.Adam, gaf.AdamW])
def test_adam_in_the_learning_rate(cls):
    check(
        lambda params, lr: cls(
            params, lr=lr, eps=1e-3, differentiable=True, activation=gaf.Tanh(0.5, 4)
        ),
        0.1,
    )


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_the_same_numbers_as_without(placement):
    def run(differentiable):
        w = W0.clone().requires_grad_() if not differentiable else W0.clone()
        opt = gaf.SGD(
            [w],
            lr=0.3,
            momentum=0.9,
            activation=gaf.Arctan(0.5, 4),
            placement=placement,
            differentiable=differentiable,
        )
        for step in range(3):
            w.grad = (step + 1) * PULL
            opt.step()
        (state,) = opt.state.values()
        (velocity,) = state.values()
        return w.detach(), velocity

    for a, b in zip(run(True), run(False), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_a_monitor_looks_on(placement):
    monitors = []

    def make(params):
        opt = gaf.SGD(
            params,
            lr=0.3,
            momentum=0.9,
            activation=gaf.Arctan(0.5, 4),
            placement=placement,
            differentiable=True,
        )
        monitors.append(gaf.Monitor(opt))
        return opt

    check(make)
    assert [record["elements"] for record in monitors[0].records] == [3, 3, 3]


@pytest.mark.parametrize("kind", [functools.partial(gaf.SGD, momentum=0.9), gaf.Adam, gaf.Lion])
def test_complex_states_advance(kind):
    trained = []
    for differentiable in (True, False):
        w = torch.ones(4, dtype=torch.cfloat)
        opt = kind([w], lr=0.1, differentiable=differentiable, foreach=False, activation="arctan")
        for _ in range(3):
            w.grad = torch.full_like(w, 0.5 + 0.1j)
            opt.step()
        trained.append((w, opt.state[w]))
    (w, state), (twin, other) = trained
    torch.testing.assert_close(w, twin)
    for key in other:
        torch.testing.assert_close(state[key], other[key])


def test_a_checkpoint_does_not_switch_it_off():
    """Whether autograd follows is about this program: the checkpoint is of an ordinary training."""
    ordinary = gaf.SGD([torch.ones(2)], lr=0.1, momentum=0.9, activation="arctan")
    w = torch.ones(2, requires_grad=True)
    weights = w.clone()
    opt = gaf.SGD([weights], lr=0.1, momentum=0.9, activation="arctan", differentiable=True)
    opt.load_state_dict(ordinary.state_dict())
    assert opt.param_groups[0]["differentiable"]
    for _ in range(2):
        weights.grad = (w * 0.1).detach()
        opt.step()
    assert opt.state[weights]["momentum_buffer"].abs().sum() > 0
    assert torch.autograd.grad(weights.sum(), w)[0].tolist() == [1.0, 1.0]
