"""Closures: f acts on the gradients the closure computes, once each time it runs."""

from __future__ import annotations

import pytest
import torch

import gaf
from tests.optim.helpers import (
    EVERY,
    OURS,
    F,
    assert_same,
    backward,
    loss_of,
    make,
    make_model,
    snapshot,
    train,
)


@pytest.mark.parametrize("how", ["positional", "keyword"])
@pytest.mark.parametrize("name", EVERY)
def test_a_step_with_a_closure_is_a_step(name, how):
    model, judge = make_model(), make_model()
    opt, other = make(name, model.parameters()), make(name, judge.parameters())
    backward(model, 77)  # stale gradients, which must not matter
    for step in range(3):
        losses = []

        def closure(step=step, losses=losses):
            assert torch.is_grad_enabled()
            losses.append(backward(model, step))
            return losses[-1]

        loss = opt.step(closure) if how == "positional" else opt.step(closure=closure)
        train(judge, other, range(step, step + 1))
        assert len(losses) == 1
        assert loss is losses[0]  # the loss passes through
        assert_same(snapshot(opt), snapshot(other), f"step {step}")


@pytest.mark.parametrize("name", EVERY)
def test_none_is_no_closure(name):
    model, judge = make_model(), make_model()
    opt, other = make(name, model.parameters()), make(name, judge.parameters())
    backward(model, 0)
    assert opt.step(None) is None
    backward(model, 1)
    assert opt.step(closure=None) is None
    train(judge, other, 2)
    assert_same(snapshot(opt), snapshot(other))


@pytest.mark.parametrize("name", EVERY)
def test_under_no_grad_too(name):
    model, judge = make_model(), make_model()
    opt, other = make(name, model.parameters()), make(name, judge.parameters())
    with torch.no_grad():
        opt.step(lambda: backward(model, 0))
    train(judge, other, 1)
    assert_same(snapshot(opt), snapshot(other))


@pytest.mark.parametrize("name", EVERY)
def test_a_closure_that_raises_leaves_things_as_they_were(name):
    model, judge = make_model(), make_model()
    opt, other = make(name, model.parameters()), make(name, judge.parameters())
    monitor = gaf.Monitor(opt)
    train(model, opt, 1)
    train(judge, other, 1)
    before = snapshot(opt)

    def closure():
        raise RuntimeError("out of data")

    with pytest.raises(RuntimeError, match="out of data"):
        opt.step(closure)
    assert torch.is_grad_enabled()
    assert_same(snapshot(opt), before)
    assert len(monitor.records) == 1
    train(model, opt, range(1, 3))
    train(judge, other, range(1, 3))
    assert_same(snapshot(opt), snapshot(other))
    assert [record["step"] for record in monitor.records] == [1, 2, 3]


@pytest.mark.parametrize("name", OURS)
def test_ours_leave_the_gradient_of_the_closure_alone(name):
    model, judge = make_model(), make_model()
    opt = make(f"ours:{name}", model.parameters())
    for step in range(3):
        judge.load_state_dict(model.state_dict())
        backward(judge, step)
        opt.step(lambda step=step: backward(model, step))
        for p, q in zip(model.parameters(), judge.parameters(), strict=True):
            assert_same(p.grad, q.grad)


@pytest.mark.parametrize("how", ["positional", "keyword"])
@pytest.mark.parametrize("max_iter", [1, 4])
def test_lbfgs_without_a_line_search(max_iter, how):
    def activated_by_hand(model, step):
        loss = backward(model, step)
        for p in model.parameters():
            p.grad.copy_(F(p.grad))
        return loss

    model, judge = make_model(), make_model()
    opt = gaf.activate(torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=max_iter), F)
    other = torch.optim.LBFGS(judge.parameters(), lr=0.1, max_iter=max_iter)
    calls = []
    for step in range(3):

        def closure(step=step):
            calls.append(step)
            return backward(model, step)

        loss = opt.step(closure) if how == "positional" else opt.step(closure=closure)
        judged = other.step(lambda step=step: activated_by_hand(judge, step))
        assert_same(loss.detach(), judged.detach())
        assert_same(snapshot(opt), snapshot(other), f"step {step}")
    assert len(calls) == 3 * max_iter
    gaf.deactivate(opt)
    opt.step(lambda: backward(model, 3))
    other.step(lambda: backward(judge, 3))
    assert_same(snapshot(opt), snapshot(other))


@pytest.mark.usefixtures("no_kernels")
def test_a_closure_that_accumulates():
    model, judge = make_model(), make_model()
    opt = gaf.activate(torch.optim.Adam(model.parameters()), F)
    other = torch.optim.Adam(judge.parameters())

    def closure():
        opt.zero_grad()
        losses = [loss_of(model, step) for step in range(3)]
        for loss in losses:
            loss.backward()
        return sum(losses)

    opt.step(closure)
    for step in range(3):
        loss_of(judge, step).backward()
    gaf.activate_grad_(judge.parameters(), F)
    other.step()
    assert_same(snapshot(opt), snapshot(other))
