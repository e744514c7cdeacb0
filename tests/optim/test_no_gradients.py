"""A group none of whose parameters has a gradient: nothing happens to it, as in torch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gaf
from tests.optim.helpers import EVERY, F, assert_same, make, snapshot

WAYS = [{"foreach": False}, {"foreach": True}, {"fused": True}, {}]
ACTIVATIONS = pytest.mark.parametrize("activation", [F, gaf.Auto()], ids=["arctan", "auto"])


def made(name, groups, activation, how):
    opt = make(name, groups, activation)
    if name.startswith("ours:"):
        for group in opt.param_groups:
            group.update({"foreach": None, "fused": None} | how)
    return opt


def tensors():
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(4, 3, generator=generator)) for _ in range(3)]


def set_gradients(*params):
    generator = torch.Generator().manual_seed(1)
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator)


def check(name, activation, how, step=lambda opt: opt.step):
    """Two groups, the first without gradients, against an optimizer of the second alone."""
    idle, *busy = tensors()
    alone = tensors()[1:]
    opt = made(name, [{"params": [idle]}, {"params": busy}], activation, how)
    before = [part[0] for part in snapshot(opt).values()]  # Adagrad has made its state
    twin = made(name, alone, activation, how)
    monitor = gaf.Monitor(opt)
    for act in (step(opt), step(opt)):
        set_gradients(*busy)
        set_gradients(*alone)
        act()
        twin.step()
    assert_same([part[0] for part in snapshot(opt).values()], before)
    elements = [(record["group"], record["elements"]) for record in monitor.records]
    assert elements == [(0, 0), (1, 24)] * 2
    rows = zip(snapshot(opt).items(), snapshot(twin).items(), strict=True)
    for (key, (_, *ours)), (_, theirs) in rows:
        assert_same(ours, theirs, key)


@ACTIVATIONS
@pytest.mark.parametrize("name", EVERY)
def test_one_group_of_two(name, activation):
    for how in WAYS if name.startswith("ours:") else [{}]:
        check(name, activation, how)


@ACTIVATIONS
@pytest.mark.parametrize("name", ["ours:sgd-momentum", "ours:adamw"])
def test_where_there_are_no_kernels(name, activation, no_kernels):
    check(name, activation, {})


@ACTIVATIONS
@pytest.mark.parametrize("name", EVERY)
def test_no_gradients_at_all(name, activation):
    params = tensors()
    opt = made(name, params, activation, {})
    monitor = gaf.Monitor(opt)
    before = snapshot(opt)
    opt.step()
    opt.step(lambda: torch.tensor(0.0))
    assert_same(snapshot(opt), before)
    assert [record["elements"] for record in monitor.records] == [0, 0]
    assert "there is nothing to act on" in str(monitor)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("ours:sgd-momentum", {"foreach": True}),
        pytest.param("ours:sgd-gradient", {"foreach": False}, marks=pytest.mark.slow),
        pytest.param("ours:adam", {}, marks=pytest.mark.slow),
        pytest.param("activated:rmsprop", {}, marks=pytest.mark.slow),
    ],
)
def test_compiled(name, how):
    """Nothing for the first group; for the second what an eager step does, but for rounding."""
    torch._dynamo.reset()
    idle, busy = tensors()[:2]
    twin = tensors()[1]
    before = idle.detach().clone()
    opt = made(name, [{"params": [idle]}, {"params": [busy]}], "auto", how)
    eager = made(name, [twin], "auto", how)
    step = torch.compile(opt.step, backend="eager")
    for _ in range(2):
        set_gradients(busy)
        set_gradients(twin)
        step()
        eager.step()
    assert_same(idle.detach(), before)
    assert not opt.state.get(idle)
    torch.testing.assert_close(busy, twin, rtol=0, atol=1e-6)
