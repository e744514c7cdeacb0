"""A monitor on any optimizer: exact figures, the update, names; and nothing waits for the device."""

from __future__ import annotations

import copy
import math
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import gaf
from gaf.optim import monitor as monitors
from tests.optim.helpers import F, assert_same, backward, make_model, snapshot, train

ANY = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "fused": lambda ps: torch.optim.SGD(ps, lr=0.1, fused=True),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=1e-2),
    "ours without f": lambda ps: gaf.SGD(ps, lr=0.1, activation=None),
    "ours": lambda ps: gaf.SGD(ps, lr=0.1, momentum=0.9, activation=F),
    "activated": lambda ps: gaf.activate(torch.optim.RMSprop(ps, lr=1e-3), F),
    "on the update": lambda ps: gaf.activate(torch.optim.Adam(ps), F, placement="update"),
}


@pytest.mark.parametrize("per", ["group", "tensor"])
@pytest.mark.parametrize("name", ANY)
def test_figures_are_those_of_the_gradients_and_of_the_step(name, per):
    model = make_model()
    opt = ANY[name](model.parameters())
    monitor = gaf.Monitor(opt, per=per, names=model)
    for step in range(3):
        backward(model, step)
        grads = [p.grad.clone() for p in model.parameters()]
        before = [p.detach().clone() for p in model.parameters()]
        opt.step()
        places = [grads] if per == "group" else [[g] for g in grads]
        owners = [range(len(grads))] if per == "group" else [[i] for i in range(len(grads))]
        records = list(monitor.latest.values())
        for record, gs, owner in zip(records, places, owners, strict=True):
            g = torch.cat([g.flatten() for g in gs]).double()
            assert record["step"] == step + 1
            assert record["elements"] == g.numel()
            assert record["zeros"] == (g == 0).sum()
            assert record["norm"] == pytest.approx(g.norm().item(), rel=1e-6)
            assert record["max"] == pytest.approx(g.abs().max().item(), rel=1e-6)
            assert record["quantiles"]["0.5"] == pytest.approx(g.abs().quantile(0.5).item())
            old = torch.cat([before[i].flatten() for i in owner]).double()
            params = list(model.parameters())
            new = torch.cat([params[i].detach().flatten() for i in owner]).double()
            ratio = ((new - old).norm() / old.norm()).item()
            assert record["update_ratio"] == pytest.approx(ratio, rel=1e-6)
    if per == "tensor":
        assert list(monitor.latest) == [name for name, _ in model.named_parameters()]


@pytest.mark.parametrize("name", ANY)
def test_it_changes_nothing(name):
    model, judge = make_model(), make_model()
    opt, other = ANY[name](model.parameters()), ANY[name](judge.parameters())
    gaf.Monitor(opt, per="tensor")
    train(model, opt, 4)
    train(judge, other, 4)
    assert_same(snapshot(opt), snapshot(other))


def test_closures_and_steps_that_call_their_parents():
    class Inner(torch.optim.SGD):
        pass

    class Outer(Inner):
        def step(self, closure=None):
            return super().step(closure)

    model = make_model()
    Inner(model.parameters(), lr=0.1)  # torch hooks the step of each class that is made
    opt = Outer(model.parameters(), lr=0.1)
    monitor = gaf.Monitor(opt)
    for step in range(3):
        opt.step(lambda step=step: backward(model, step))
        backward(model, step)
        opt.step()
    assert [record["step"] for record in monitor.records] == [1, 2, 3, 4, 5, 6]


def test_names_without_a_model():
    model = make_model()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = gaf.Monitor(opt, per="tensor")
    backward(model, 0)
    opt.step()
    assert next(iter(monitor.latest)) == "group 0, tensor 0"
    opt = torch.optim.SGD(model.named_parameters(), lr=0.1)
    monitor = gaf.Monitor(opt, per="tensor")
    opt.step()
    assert next(iter(monitor.latest)) == "0.weight"


def test_parameters_that_come_and_go():
    model = make_model()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = gaf.Monitor(opt, per="tensor", names=model)
    backward(model, 0)
    opt.step()
    model[0].weight.grad = None
    opt.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
    opt.step()
    opt.param_groups[1]["params"][0].grad = torch.ones(3)
    opt.step()
    by_step = {s: [r["name"] for r in monitor.records if r["step"] == s] for s in (1, 2, 3)}
    assert by_step[2] == by_step[1][1:]
    assert by_step[3] == [*by_step[2], "group 1, tensor 0"]


WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "unique")


class Waits(TorchDispatchMode):
    """Counts operations whose result the host must wait for."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.split(".")[0]
        self.count += name in WAITING or name.startswith("unique")
        return func(*args, **(kwargs or {}))


def waits(name, monitored, per="group"):
    model = make_model()
    opt = ANY[name](model.parameters())
    monitor = gaf.Monitor(opt, per=per, histogram=True) if monitored else None
    clip = monitor.clip_grad_norm_ if monitor else torch.nn.utils.clip_grad_norm_
    with Waits() as mode:
        for step in range(3):
            backward(model, step)
            clip(model.parameters(), 0.1)
            opt.step()
    if monitor is not None:
        assert len(monitor.clips) == 3
        assert len(monitor.records) == 3 * (1 if per == "group" else 4)
    return mode.count


@pytest.mark.parametrize("per", ["group", "tensor"])
@pytest.mark.parametrize("name", ANY)
def test_nothing_waits_for_the_device_between_reads(name, per):
    with (
        Waits() as mode
    ):  # older versions of torch look at the quantiles asked for, on the CPU only
        torch.nanquantile(torch.ones(2, 3), torch.tensor([0.5]), dim=1)
    with patch.object(torch, "nanquantile", wraps=torch.nanquantile) as quantiles:
        monitored = waits(name, True, per)
    assert monitored == waits(name, False) + mode.count * quantiles.call_count
    with Waits() as mode:  # the mode does count
        torch.ones(1).item()
    assert mode.count == 1


@pytest.mark.parametrize("per", ["group", "tensor"])
def test_it_runs_where_there_is_nothing_to_wait_for(per):
    """On the meta device a value that the host asks for is an error: the way of GPUs has none."""
    params = [nn.Parameter(torch.empty(n, 3, device="meta")) for n in (5, 2)]
    opt = torch.optim.SGD(params, lr=0.1, momentum=0.9, foreach=False)
    monitor = gaf.Monitor(opt, per=per)
    for p in params:
        p.grad = torch.empty_like(p)
    for _ in range(3):
        monitor.clip_grad_norm_(params, 1.0, foreach=False)
        opt.step()
    with pytest.raises(NotImplementedError):
        len(monitor.records)


def test_half_precision_close_to_its_smallest_number():
    for dtype, smallest in ((torch.float16, 2.0**-24), (torch.bfloat16, 2.0**-133)):
        w = torch.zeros(100, dtype=dtype, requires_grad=True)
        opt = torch.optim.SGD([w], lr=0.1)
        monitor = gaf.Monitor(opt)
        w.grad = torch.zeros(100, dtype=dtype)
        w.grad[:30] = smallest
        w.grad[30:40] = 1.0
        opt.step()
        assert monitor.records[0]["near_smallest"] == pytest.approx(0.75)
        assert monitor.records[0]["zeros"] == 60


def test_norms_of_many_clipped_steps_are_packed(monkeypatch):
    monkeypatch.setattr(monitors, "TOGETHER", 4)
    monitor = gaf.Monitor()
    for step in range(10):
        monitor.note_clip(torch.tensor(float(step)), 1.0 if step < 7 else 2.0)
        monitor._steps += 1
    expected = [(i + 1, float(i), 1.0 if i < 7 else 2.0) for i in range(10)]
    assert [(c["step"], c["norm"], c["max_norm"]) for c in monitor.clips] == expected
    assert len(monitor._clips) == 2
    assert copy.deepcopy(monitor).clips == monitor.clips


def test_a_step_with_inf_has_the_norm_of_the_rest():
    w = torch.zeros(4, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.0)
    monitor = gaf.Monitor(opt)
    w.grad = torch.tensor([3.0, math.inf, -4.0, math.nan])
    opt.step()
    (record,) = monitor.records
    assert (record["norm"], record["max"], record["nonfinite"]) == (5.0, 4.0, 2)
