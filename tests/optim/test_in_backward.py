"""gaf.in_backward: the training is the ordinary one to the bit, and gradients are freed as they come."""

from __future__ import annotations

import copy
import functools
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gaf
from tests.optim.helpers import (
    EVERY,
    FOREIGN,
    OURS,
    F,
    assert_same,
    loss_of,
    make,
    make_model,
    snapshot,
)

MAKERS = {
    **{name: functools.partial(make, name) for name in EVERY},
    **{f"auto, {name}": functools.partial(make, name, activation=gaf.Auto()) for name in EVERY},
    **{
        f"quantileclip, {name}": functools.partial(make, name, activation=gaf.QuantileClip())
        for name in ("ours:sgd-gradient", "ours:adam", "activated:rmsprop", "activated:adam-fused")
    },
    **{
        f"scaled, {name}": functools.partial(make, name, activation=gaf.Scaled())
        for name in ("ours:sgd-gradient", "ours:adam-momentum", "activated:adam-fused")
    },
    **{f"torch:{name}": maker for name, maker in FOREIGN.items()},
    **{
        f"fused, {name}": functools.partial(OURS[name], activation=F, foreach=None, fused=True)
        for name in ("sgd-momentum", "sgd-update", "adam", "adamw-update")
    },
}


def groups(model):
    """Two groups, of which the second learns more slowly."""
    return [
        {"params": list(model[0].parameters())},
        {"params": list(model[2].parameters()), "lr": 0.003},
    ]


def trained(maker, steps, *, inside, cut=None):
    """A training with a scheduler; from ``cut`` on an ordinary optimizer goes on from a checkpoint."""
    model = make_model()
    opt = maker(groups(model))
    if inside:
        assert gaf.in_backward(opt) is opt
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    for step in range(steps):
        if step == cut:
            saved = (copy.deepcopy(opt.state_dict()), scheduler.state_dict())
            model = copy.deepcopy(model)  # without the hooks
            opt = maker(groups(model))
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
            for part, state in zip((opt, scheduler), saved, strict=True):
                part.load_state_dict(state)
        opt.zero_grad()
        loss_of(model, step).backward()
        if inside and (cut is None or step < cut):
            assert all(p.grad is None for p in model.parameters())
        opt.step()
        scheduler.step()
    opt.zero_grad()
    return opt


@pytest.mark.parametrize("name", MAKERS)
def test_equals_the_ordinary_training_to_the_bit(name):
    expected = trained(MAKERS[name], 4, inside=False)
    assert_same(snapshot(trained(MAKERS[name], 4, inside=True)), snapshot(expected))


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_fifty_steps_resumed_in_the_middle_by_an_ordinary_optimizer(name):
    expected = trained(MAKERS[name], 50, inside=False)
    assert_same(snapshot(trained(MAKERS[name], 50, inside=True)), snapshot(expected))
    assert_same(snapshot(trained(MAKERS[name], 50, inside=True, cut=25)), snapshot(expected))


@pytest.mark.parametrize("name", ["auto, ours:sgd-gradient", "ours:adam", "activated:adam-fused"])
def test_an_ordinary_optimizer_resumes(name):
    expected = trained(MAKERS[name], 6, inside=False)
    assert_same(snapshot(trained(MAKERS[name], 6, inside=True, cut=3)), snapshot(expected))


def test_a_checkpoint_is_loaded():
    before = trained(MAKERS["ours:adam"], 3, inside=False)
    model, other = make_model(), make_model()
    inside, ordinary = (MAKERS["ours:adam"](groups(m)) for m in (model, other))
    gaf.in_backward(inside)
    for opt, m in ((inside, model), (ordinary, other)):
        opt.load_state_dict(copy.deepcopy(before.state_dict()))
        opt.param_groups[1]["lr"] = 0.5  # of the groups that were loaded
        loss_of(m, 0).backward()
        opt.step()
        opt.zero_grad()
    assert_same(snapshot(inside), snapshot(ordinary))


def peak_of_gradients(inside):
    """The most bytes of gradients that exist at a time, over 20 equal layers."""
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(20)))
    params = list(model.parameters())
    peak = 0

    def look(p):
        nonlocal peak
        peak = max(peak, sum(q.grad.nbytes for q in params if q.grad is not None))

    for p in params:  # before ours, so that it sees the gradient
        p.register_post_accumulate_grad_hook(look)
    opt = gaf.AdamW(params, lr=1e-3, activation=F)
    if inside:
        gaf.in_backward(opt)
    model(torch.ones(2, 16)).sum().backward()
    opt.step()
    return peak


def test_gradients_take_a_tenth_of_the_memory_at_most():
    assert 0 < peak_of_gradients(True) <= peak_of_gradients(False) / 10


class Tied(nn.Module):
    """The weight of the first layer is that of the last, too."""

    def __init__(self, checkpointed=False):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.weight = nn.Parameter(torch.randn(5, 5) / 3)
            self.middle = nn.Linear(5, 5)
        self.checkpointed = checkpointed

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.part, x, use_reentrant=True) if self.checkpointed else self.part(x)
        return x

    def part(self, x):
        return nn.functional.linear(torch.tanh(self.middle(x)), self.weight) + self.weight.sum()


@pytest.mark.parametrize("name", ["ours:sgd-momentum", "activated:adam-fused"])
def test_weights_used_twice(name):
    found = []
    for inside in (True, False):
        model = Tied()
        opt = make(name, model.parameters())
        if inside:
            gaf.in_backward(opt)
        for step in range(3):
            opt.zero_grad()
            model(torch.full((2, 5), 1.0 + step)).square().sum().backward()
            opt.step()
        opt.zero_grad()
        found.append(snapshot(opt))
    assert_same(*found)


def test_weights_that_checkpointed_parts_share_are_refused():
    model = Tied(checkpointed=True)
    opt = gaf.in_backward(torch.optim.SGD(model.parameters(), lr=0.1))
    x = torch.ones(2, 5, requires_grad=True)
    with pytest.raises(gaf.GafError, match="second gradient"):
        model(x).sum().backward()
    opt.zero_grad()


def test_parameters_that_come_later_and_that_thaw():
    found = []
    for inside in (True, False):
        model = make_model()
        model[0].weight.requires_grad_(False)
        opt = gaf.SGD(model[0].parameters(), lr=0.1, momentum=0.9, activation=F)
        if inside:
            gaf.in_backward(opt)
        for step in range(4):
            opt.zero_grad()
            if step == 1:
                opt.add_param_group({"params": list(model[2].parameters()), "lr": 0.01})
                model[0].weight.requires_grad_(True)
            if step > 0:
                loss_of(model, step).backward()
            else:
                model[0](torch.ones(1, 5)).sum().backward()
            if inside and step > 1:
                assert all(p.grad is None for p in model.parameters())
            opt.step()
        opt.zero_grad()
        found.append(snapshot(opt))
    assert_same(*found)


def test_several_backward_passes_are_refused():
    model = make_model()
    opt = gaf.in_backward(torch.optim.SGD(model.parameters(), lr=0.1))
    loss_of(model, 0).backward()
    with pytest.raises(gaf.GafError, match="no accumulation over several backward passes"):
        loss_of(model, 1).backward()
    opt.zero_grad()


def test_closures_are_refused():
    model = make_model()
    opt = gaf.in_backward(torch.optim.SGD(model.parameters(), lr=0.1))
    for call in (lambda f: opt.step(f), lambda f: opt.step(closure=f)):
        with pytest.raises(gaf.GafError, match="takes no closure"):
            call(lambda: loss_of(model, 0))


@pytest.mark.parametrize("unscale_first", [False, True])
@pytest.mark.parametrize("name", ["ours:adam", "torch:adam-fused", "torch:rmsprop"])
def test_a_scaler_is_refused(name, unscale_first):
    model = make_model()
    opt = gaf.in_backward(MAKERS[name](model.parameters()))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(loss_of(model, 0)).backward()
    if unscale_first:
        scaler.unscale_(opt)
    with pytest.raises(gaf.GafError, match="GradScaler comes too late"):
        scaler.step(opt)


def test_what_needs_all_gradients_is_refused():
    def make_opt():
        return gaf.SGD([torch.ones(2, requires_grad=True)], lr=0.1, activation=F)

    opt = make_opt()
    gaf.Guard(opt)
    with pytest.raises(gaf.GafError, match="use one of the two"):
        gaf.in_backward(opt)
    opt = gaf.in_backward(make_opt())
    with pytest.raises(gaf.GafError, match="use one of the two"):
        gaf.Guard(opt)
    with pytest.raises(gaf.GafError, match="already"):
        gaf.in_backward(opt)
    gaf.Monitor(opt)
    with pytest.raises(gaf.GafError, match="watch the ordinary optimizer"):
        opt.param_groups[0]["params"][0].sum().backward()
    opt = make_opt()
    opt.register_step_pre_hook(lambda *_: None)
    with pytest.raises(gaf.GafError, match="once for each parameter"):
        gaf.in_backward(opt)
    with pytest.raises(gaf.GafError, match="LBFGS needs all gradients"):
        gaf.in_backward(torch.optim.LBFGS([torch.ones(1, requires_grad=True)]))
    with pytest.raises(gaf.GafError, match="differentiable"):
        gaf.in_backward(gaf.SGD([torch.ones(1, requires_grad=True)], lr=0.1, differentiable=True))
    with pytest.raises(TypeError, match="takes a torch optimizer"):
        gaf.in_backward([torch.ones(1)])


class CountsItsSteps(torch.optim.SGD):
    """Keeps the number of its steps in the group, as some optimizers do."""

    def step(self, closure=None):
        super().step(closure)
        for group in self.param_groups:
            group["steps"] = group.get("steps", 0) + 1


def test_counters_of_a_group_are_refused():
    model = make_model()
    opt = gaf.in_backward(CountsItsSteps(model.parameters(), lr=0.1))
    with pytest.raises(gaf.GafError, match="keeps steps for a group as a whole"):
        loss_of(model, 0).backward()
    assert "steps" not in opt.param_groups[0]


@pytest.mark.parametrize("name", ["ours:adam", "activated:rmsprop", "torch:adam-fused"])
def test_freed_with_the_last_reference(name):
    torch.optim.SGD([torch.ones(1)], lr=0.1).step()
    model = make_model()
    opt = gaf.in_backward(MAKERS[name](model.parameters()))
    loss_of(model, 0).backward()
    opt.step()
    copied = copy.deepcopy(opt)  # an ordinary optimizer
    assert "gaf_in_backward" not in vars(copied)
    gc.disable()
    try:
        opt = weakref.ref(opt)
        assert opt() is None
    finally:
        gc.enable()
    loss_of(model, 0).backward()  # the hooks do nothing any longer
    assert all(p.grad is not None for p in model.parameters())
