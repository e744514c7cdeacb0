"""What native code must not do: write outside a tensor, race, hide a change, or misread one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import gaf
from gaf.kernels import native

if not native.INSTRUCTION_SETS:
    pytest.skip("the native kernels were not built", allow_module_level=True)

F = gaf.Arctan(0.1, 20.0)


@pytest.mark.parametrize("fused", [None, True])
@pytest.mark.parametrize("kind", [gaf.SGD, gaf.Adam, gaf.AdamW])
def test_a_state_of_another_shape_is_refused(kind, fused):
    """As after a wrong checkpoint or a resized embedding: an error, not a write past the buffer."""
    hyper = {"lr": 0.1, "momentum": 0.9} if kind is gaf.SGD else {"amsgrad": True}
    for old, new in [((10,), (20,)), ((2, 3), (3, 4)), ((20,), (10,))]:
        p = nn.Parameter(torch.zeros(old))
        opt = kind([p], activation=F, fused=fused, **hyper)
        p.grad = torch.ones(old)
        opt.step()
        p.grad = None
        p.data = torch.zeros(new)
        p.grad = torch.ones(new)
        with pytest.raises(RuntimeError, match=r"shape|size of tensor"):
            opt.step()


@pytest.mark.parametrize("kind", [gaf.SGD, gaf.Adam, gaf.AdamW])
@pytest.mark.parametrize("fused", [None, True])
def test_a_group_without_gradients(kind, fused):
    a, b = torch.zeros(3), torch.zeros(3)
    a.grad = torch.ones(3)
    groups = [{"params": [b]}, {"params": [a]}]
    kind(groups, lr=0.1, activation=F, fused=fused).step()
    assert torch.equal(b, torch.zeros(3))
    assert (a < 0).all()


@pytest.mark.parametrize("kind", [gaf.SGD, gaf.AdamW])
def test_parameters_that_share_memory(kind):
    """Tied through .data: served one after the other, whatever the number of threads."""

    def run(threads: int, offset: int) -> torch.Tensor:
        torch.set_num_threads(threads)
        base = torch.zeros(80_000, dtype=torch.float64)
        p, q = nn.Parameter(base[:50_000]), nn.Parameter(base[offset : offset + 50_000])
        opt = kind([p, q], lr=0.1, activation="log")
        for step in range(10):
            p.grad = torch.full((50_000,), 0.1 + step, dtype=torch.float64)
            q.grad = torch.full((50_000,), -0.3, dtype=torch.float64)
            opt.step()
        return base

    try:
        for offset in (0, 1, 30_000):
            assert all(torch.equal(run(1, offset), run(4, offset)) for _ in range(3))
    finally:
        torch.set_num_threads(1)


def test_a_gradient_shared_by_two_parameters_is_activated_once():
    p, q = torch.zeros(40_000), torch.zeros(40_000)
    p.grad = q.grad = torch.full((40_000,), 0.05)
    gaf.activate_grad_([p, q], F)
    torch.testing.assert_close(p.grad, F(torch.full((40_000,), 0.05)))


@pytest.mark.parametrize("kind", [gaf.SGD, gaf.Adam])
def test_autograd_sees_the_change(kind):
    """A graph that needs the old weights says so, as after torch's own step."""
    w = torch.ones(3, requires_grad=True)
    opt = kind([w], lr=0.1, activation=F)
    loss = (w**3).sum()
    loss.backward(retain_graph=True)
    opt.step()
    w.grad = None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_lazy_negations_and_zeros():
    for grad in (torch._neg_view(torch.ones(3)), torch._efficientzerotensor((3,))):
        w, reference = torch.zeros(3), torch.zeros(3)
        w.grad, reference.grad = grad, grad.clone()
        gaf.SGD([w], lr=0.1, activation=F).step()
        gaf.SGD([reference], lr=0.1, activation=F, foreach=False).step()
        torch.testing.assert_close(w, reference)
        with pytest.raises(RuntimeError, match="lazy negation or zero"):
            gaf.SGD([w], lr=0.1, activation=F, fused=True).step()


@pytest.mark.parametrize("isa", native.INSTRUCTION_SETS)
@pytest.mark.parametrize("name", native.FUNCTIONS)
def test_extreme_factors(name, isa, monkeypatch):
    """From one end of what the kernels take to the other; beyond it they stand aside."""
    monkeypatch.setenv("GAF_ISA", isa)
    g = torch.tensor([0.0, 1e-45, 1e-30, 1e-9, 1.0, 1e19, 3.4e38, math.inf, -math.inf])
    for alpha in (1e-18, 0.1, 1e18):
        for beta in (1e-18, 1e-9, 3.8e7, 123456789.0, 1e12, 1.4e17, 1e18):
            f = gaf.parse(f"{name}({alpha!r}, {beta!r})")
            w = torch.zeros_like(g)
            w.grad = g.clone()
            assert native.refusal(name, [w], [w.grad], params=f.params) is None
            gaf.activate_grad_([w], f)
            torch.testing.assert_close(w.grad, f(g.double()).float(), rtol=1e-6, atol=1e-45)
    wide = gaf.parse(f"{name}(1e-30, 1e30)")
    assert "from 1e-18 to 1e+18" in (native.refusal(name, [g], params=wide.params) or "")
    w.grad = g.clone()
    gaf.activate_grad_([w], wide)
    assert torch.isfinite(w.grad[:-2]).all()


@pytest.mark.parametrize("name", native.FUNCTIONS)
@pytest.mark.parametrize(("beta", "scale"), [(1e-18, 2.0**20), (1e18, 2.0**-20), (20.0, 2.0**20)])
def test_a_loss_scale_with_extreme_factors(name, beta, scale):
    """The kernels multiply beta with it, but not beyond the factors they take."""
    f = gaf.parse(f"{name}(0.1, {beta!r})")
    g = torch.tensor([0.0, 1e-30, 1e-9, 1.0, -1e19, 1e30])
    for kind in (gaf.SGD, gaf.Adam):
        w, reference = torch.zeros_like(g), torch.zeros_like(g)
        w.grad, reference.grad = g * scale, g.clone()
        opt = kind([w], lr=0.1, activation=f, fused=True)
        opt.grad_scale, opt.found_inf = torch.tensor(scale), torch.tensor(0.0)
        opt.step()
        kind([reference], lr=0.1, activation=f, foreach=False).step()
        torch.testing.assert_close(w, reference, rtol=1e-6, atol=1e-45)
        assert torch.equal(w.grad, g * scale)


def test_nesterovs_step_is_rounded_once():
    """Momentum and gradient are added to each other first: in the weight each of them would be lost."""
    w, reference = torch.ones(40), torch.ones(40)
    for each, how in ((w, {"fused": True}), (reference, {"foreach": False})):
        each.grad = torch.full_like(each, -(2.0**-10))
        f = gaf.Tanh(1.0, 1.0)
        hyper = {"momentum": 0.9, "nesterov": True, "placement": "gradient", "activation": f}
        gaf.SGD([each], lr=0.9 * 2.0**-14, **hyper, **how).step()
    assert torch.equal(w, reference)
    assert w[0] > 1


def test_a_mean_that_is_reached_stays():
    """beta1 and 1 - beta1 in float32 do not add up to 1; no step is to add the difference."""
    w = torch.zeros(40)
    opt = gaf.Adam([w], betas=(0.9999, 0.999), activation=gaf.Tanh(1.0, 1.0), fused=True)
    w.grad = torch.full_like(w, 0.5)
    opt.step()
    opt.state[w]["exp_avg"].fill_(gaf.Tanh(1.0, 1.0)(torch.tensor(0.5)))
    for _ in range(3000):
        opt.step()
    torch.testing.assert_close(
        opt.state[w]["exp_avg"], torch.full_like(w, math.tanh(0.5)), rtol=5e-7, atol=0
    )


def test_a_small_beta1_keeps_small_means():
    """1e3 leaves no rounding in 1e-9."""
    w = torch.zeros(1)
    opt = gaf.Adam([w], betas=(0.0, 0.9), activation=gaf.Log(1.0, 1.0))
    for value in (1e3, 1e-9):
        w.grad = torch.tensor([value])
        opt.step()
    assert opt.state[w]["exp_avg"].item() == pytest.approx(1e-9, rel=1e-6)


def test_a_default_device_does_not_matter():
    w = torch.zeros(3)
    w.grad = torch.ones(3)
    opt = gaf.SGD([w], lr=0.1, activation=F)
    torch.set_default_device("meta")
    try:
        opt.step()
        assert gaf.activate_grad_([w], F).item() == 1.0
        assert F(0.5) == pytest.approx(0.1 * math.atan(10))
    finally:
        torch.set_default_device(None)
    assert (w < 0).all()


def test_the_monitor_sees_what_the_kernel_sees_under_a_scale():
    w = torch.zeros(4, dtype=torch.float16)
    opt = gaf.SGD([w], lr=0.1, activation=F, fused=True)
    monitor = gaf.Monitor(opt)
    w.grad = torch.full((4,), 0.004, dtype=torch.float16)
    opt.grad_scale, opt.found_inf = torch.tensor(2.0**20), torch.tensor(0.0)
    opt.step()
    assert monitor.records[0]["zeros"] == 0
    assert monitor.records[0]["max"] == pytest.approx(0.004 / 2**20, rel=1e-3)
