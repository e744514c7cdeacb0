"""Optimizers are freed with their last reference, as torch's are: no cycle waits for the collector."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch

import gaf
from tests.optim.helpers import EVERY, F, assert_same, make, make_model, snapshot, train


@pytest.fixture
def no_collector():
    # The first step of a process imports torch._dynamo, in frames that hold the optimizer; torch's own too.
    torch.optim.SGD([torch.ones(1)], lr=0.1).step()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("activation", [F, gaf.Auto()], ids=["arctan", "auto"])
@pytest.mark.parametrize("name", EVERY)
def test_deleted_with_its_last_reference(name, activation, no_collector):
    model = make_model()
    opt = make(name, model.parameters(), activation)
    monitor = gaf.Monitor(opt)
    train(model, opt, 2)
    opt.load_state_dict(opt.state_dict())
    monitor, opt = weakref.ref(monitor), weakref.ref(opt)
    assert opt() is None
    assert monitor() is None


@pytest.mark.parametrize("way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("name", ["ours:adam", "activated:rmsprop"])
def test_a_copy_is_freed_too_and_outlives_the_original(name, way, no_collector):
    opt = make(name, make_model().parameters())
    other = way(opt)
    del opt
    params = [torch.ones(2, requires_grad=True)]
    other.add_param_group({"params": params})
    assert gaf.activation_of(other.param_groups[1]) == F
    again = way(other)
    assert again.add_param_group is not other.add_param_group
    assert gaf.activation_of(again.param_groups[1]) == F
    reference = weakref.ref(other)
    del other
    assert reference() is None


def test_a_monitor_outlives_its_optimizer():
    model = make_model()
    opt = make("ours:sgd", model.parameters())
    monitor = gaf.Monitor(opt)
    train(model, opt, 2)
    del opt
    assert [record["step"] for record in monitor.records] == [1, 2]
    monitor.detach()


def test_a_copied_monitor_has_the_records_and_watches_nothing():
    model = make_model()
    opt = make("ours:sgd", model.parameters())
    monitor = gaf.Monitor(opt)
    train(model, opt, 1)
    others = [copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))]
    train(model, opt, 1)
    assert [len(each.records) for each in (monitor, *others)] == [2, 1, 1]
    others[0].detach()
    assert opt.gaf_monitor is monitor


@pytest.mark.parametrize("kind", [gaf.SGD, gaf.Adam, gaf.AdamW])
def test_fused_on_the_meta_device_is_refused_by_the_step(kind):
    """As by torch's own: the parameters may get their memory after the optimizer is made."""
    w = torch.ones(3, device="meta", requires_grad=True)
    for opt in (kind([w], lr=0.1, fused=True), kind([w], lr=0.1, activation=F, fused=True)):
        w.grad = torch.ones(3, device="meta")
        with pytest.raises(RuntimeError, match="fused=True"):
            opt.step()


class Lookahead(torch.optim.Optimizer):
    """Wraps an optimizer without calling torch's constructor, as some packages do."""

    def __init__(self, optimizer: torch.optim.Optimizer, alpha: float = 0.5) -> None:
        self.optimizer, self.alpha = optimizer, alpha
        self.param_groups, self.state = optimizer.param_groups, optimizer.state
        self.defaults = optimizer.defaults
        self.slow = [p.detach().clone() for group in self.param_groups for p in group["params"]]

    def step(self, closure=None):
        loss = self.optimizer.step(closure)
        fast = [p for group in self.param_groups for p in group["params"]]
        with torch.no_grad():
            for slow, p in zip(self.slow, fast, strict=True):
                p.copy_(slow.lerp_(p, self.alpha))
        return loss


def test_a_wrapper_without_torchs_constructor_names_what_to_activate():
    opt = Lookahead(torch.optim.SGD(make_model().parameters(), lr=0.1))
    assert not gaf.is_activated(opt)
    before = dict(opt.param_groups[0])
    with pytest.raises(
        gaf.GafError, match=r"Lookahead has not called .* call gaf.activate on that"
    ):
        gaf.activate(opt, F)
    assert opt.param_groups[0] == before
    opt._optimizer_step_pre_hooks = {}  # as others of them do; their step does not run these either
    with pytest.raises(gaf.GafError, match="so its step runs no hooks"):
        gaf.activate(opt, F)


def test_the_optimizer_inside_a_wrapper_can_be_activated():
    model, other = make_model(), make_model()
    opt = Lookahead(gaf.activate(torch.optim.SGD(model.parameters(), lr=0.1), F))
    plain = Lookahead(torch.optim.SGD(other.parameters(), lr=0.1))
    train(model, opt, 3)
    for step in range(3):
        train(other, _ActivatedGradients(plain, other), range(step, step + 1))
    assert_same(snapshot(opt)["params"], snapshot(plain)["params"])


class _ActivatedGradients:
    """activate_grad_ and a step, by hand; by torch's operations, so that the two agree to the bit."""

    def __init__(self, opt: torch.optim.Optimizer, model: torch.nn.Module) -> None:
        self.opt, self.model = opt, model

    def step(self) -> None:
        for p in self.model.parameters():
            p.grad.copy_(F(p.grad))
        self.opt.step()
