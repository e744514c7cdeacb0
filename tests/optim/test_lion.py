"""Lion: None is the sign, and any function may stand in its place."""

from __future__ import annotations

from copy import deepcopy as copy_of

import pytest
import torch

import gaf


def by_hand(w, grads, lr, betas, weight_decay, f):
    """The rule in float64, from the paper's text."""
    w, m = w.double(), torch.zeros_like(w, dtype=torch.float64)
    for g in grads:
        g = g.double()
        direction = f(betas[0] * m + (1 - betas[0]) * g)
        w = w - lr * (direction + weight_decay * w)
        m = betas[1] * m + (1 - betas[1]) * g
    return w, m


@pytest.mark.parametrize("how", [{"foreach": False}, {"foreach": True}, {}], ids=str)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("name", [None, "tanh(1, 50)", "arctan(0.5, 20)"])
def test_the_rule(name, weight_decay, how):
    torch.manual_seed(0)
    w, grads = torch.randn(7), [torch.randn(7) for _ in range(20)]
    f = torch.sign if name is None else gaf.parse(name)
    expected, mean = by_hand(w, grads, 0.01, (0.9, 0.99), weight_decay, f)
    p = w.clone().requires_grad_()
    opt = gaf.Lion([p], lr=0.01, weight_decay=weight_decay, activation=name, **how)
    for g in grads:
        p.grad = g.clone()
        opt.step()
        assert torch.equal(p.grad, g)
    torch.testing.assert_close(p.detach().double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(opt.state[p]["exp_avg"].double(), mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_as_the_published_package(weight_decay):
    lion_pytorch = pytest.importorskip("lion_pytorch")
    torch.manual_seed(0)
    ours = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in ((4, 3), (5,))]
    theirs = [p.detach().clone().requires_grad_() for p in ours]
    kwargs = {"lr": 1e-2, "betas": (0.9, 0.99), "weight_decay": weight_decay}
    optimizers = gaf.Lion(ours, **kwargs), lion_pytorch.Lion(theirs, **kwargs)
    for _ in range(100):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        for opt in optimizers:
            opt.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-12)


def test_other_placements_are_refused():
    with pytest.raises(ValueError, match=r'Lion takes placement="momentum" only, got \'gradient\''):
        gaf.Lion([torch.zeros(1)], activation="tanh", placement="gradient")


@pytest.mark.parametrize("bad", [{"lr": -1.0}, {"betas": (0.9, 1.0)}, {"weight_decay": -0.1}])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        gaf.Lion([torch.zeros(1)], **bad)


def test_by_name():
    opt = gaf.create_optimizer("lion+tanh(1, 100)", [torch.zeros(1)], lr=1e-4)
    assert isinstance(opt, gaf.Lion)
    assert gaf.activation_of(opt.param_groups[0]) == gaf.Tanh(1, 100)


def test_saved_and_loaded():
    torch.manual_seed(0)
    w = torch.randn(5, requires_grad=True)
    opt = gaf.Lion([w], lr=0.01, activation="tanh(1, 50)")
    w.grad = torch.randn(5)
    opt.step()
    copy = w.detach().clone().requires_grad_()
    other = gaf.Lion([copy], lr=0.5, activation="tanh(1, 50)")
    other.load_state_dict(copy_of(opt.state_dict()))
    for p, o in ((w, opt), (copy, other)):
        p.grad = torch.full((5,), 0.3)
        o.step()
    assert torch.equal(w, copy)


def test_maximize_with_betas_as_tensors_in_a_list():
    """The gradient is used twice, and in a list nothing of it may be overwritten in between."""
    trained = []
    for how in ({"foreach": True}, {"foreach": False}):
        w = torch.ones(3, requires_grad=True)
        betas = (torch.tensor(0.9), torch.tensor(0.99))
        opt = gaf.Lion([w], lr=0.1, betas=betas, maximize=True, activation="tanh", **how)
        for _ in range(3):
            w.grad = torch.ones(3)
            opt.step()
        trained.append(opt.state[w]["exp_avg"])
    assert torch.equal(*trained)


def test_a_tensor_lr_of_one_element_and_decay():
    w = torch.ones((), requires_grad=True)
    opt = gaf.Lion([w], lr=torch.tensor([0.1]), weight_decay=0.1)
    w.grad = torch.ones(())
    opt.step()
    assert w.item() == pytest.approx(1 - 0.1 * (1 + 0.1))
