"""Tensors that share memory: where a loop would read what it has written, the reference serves instead."""

from __future__ import annotations

import pytest
import torch

import gaf
from gaf.kernels import native
from tests.optim.helpers import assert_same, snapshot

if not native.INSTRUCTION_SETS:
    pytest.skip("the native kernels were not built", allow_module_level=True)

F = gaf.Arctan(0.1, 20.0)
KINDS = {
    **{
        f"sgd-{placement}": lambda params, placement=placement, **how: gaf.SGD(
            params, lr=0.1, momentum=0.9, weight_decay=0.1, activation=F, placement=placement, **how
        )
        for placement in gaf.PLACEMENTS
    },
    "sgd": lambda params, **how: gaf.SGD(params, lr=0.1, activation=F, **how),
    "adam": lambda params, **how: gaf.Adam(params, lr=0.1, activation=F, **how),
    "adamw": lambda params, **how: gaf.AdamW(params, lr=0.1, amsgrad=True, activation=F, **how),
    "auto": lambda params, **how: gaf.SGD(params, lr=0.1, activation=gaf.Auto(), **how),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def threads():
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(1)


def numbers(n: int, dtype=torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed)).to(dtype)


def step(kind, lay, **how):
    """What two steps leave of tensors in ``lay``'s memory: parameters, gradients and state."""
    params, set_grads = lay()
    opt = KINDS[kind](params, **how)
    for _ in range(2):
        set_grads(opt)
        opt.step()
    return snapshot(opt)


def shifted(n, shift, dtype=torch.float32):
    """A parameter whose gradient lies ``shift`` elements before it in the same memory."""

    def lay():
        x = numbers(n + 16, dtype)
        w, g = x[8 : n + 8], x[8 - shift : n + 8 - shift]

        def set_grads(opt):
            w.grad = g

        return [w], set_grads

    return lay


@every_kind
@pytest.mark.parametrize("shift", [-3, 0, 1, 8])
def test_a_gradient_in_the_memory_of_its_parameter(kind, shift):
    for dtype in (torch.float32, torch.bfloat16):
        lay = shifted(300, shift, dtype)
        assert_same(step(kind, lay), step(kind, lay, foreach=False))


@pytest.mark.parametrize("kind", ["sgd-momentum", "adam"])
def test_large_tensors_on_several_threads(kind, threads):
    lay = shifted(200_000, 1)
    assert_same(step(kind, lay), step(kind, lay, foreach=False))


@every_kind
def test_fused_is_refused_before_anything_is_written(kind):
    (w,), set_grads = shifted(300, 1)()
    other = torch.ones(5)
    opt = KINDS[kind]([other, w], fused=True)
    other.grad = torch.ones(5)
    set_grads(opt)
    before = w.clone()
    with pytest.raises(RuntimeError, match="shares memory with its parameter; leave `fused` unset"):
        opt.step()
    assert torch.equal(w, before)
    assert torch.equal(other, torch.ones(5))
    assert all(not state["step"] for state in opt.state.values() if "step" in state)


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_a_velocity_in_the_memory_of_its_parameter(placement):
    def lay():
        x = numbers(400)
        w = x[1:301]

        def set_grads(opt):
            w.grad = numbers(300, seed=1)
            key = "gaf_velocity" if placement == "update" else "momentum_buffer"
            opt.state[w][key] = x[:300]

        return [w], set_grads

    kind = f"sgd-{placement}"
    if placement == "gradient":  # w -= lr * v in place, which torch refuses
        for how in ({}, {"foreach": False}):
            with pytest.raises(RuntimeError, match="refer to a single memory location"):
                step(kind, lay, **how)
        return
    assert_same(step(kind, lay), step(kind, lay, foreach=False))


def across(n):
    """Three parameters: the gradients of two lie in the memory of the others, the last two share some."""

    def lay():
        x, y = numbers(n + 8), numbers(2 * n, seed=1)
        p, q, r = x[:n], y[:n], y[n // 2 : n // 2 + n]

        def set_grads(opt):
            p.grad, q.grad, r.grad = y[3 : n + 3], x[5 : n + 5], numbers(n, seed=2)

        return [p, q, r], set_grads

    return lay


@every_kind
@pytest.mark.parametrize("n", [300, 70_000])
def test_different_parameters_are_served_one_after_the_other(kind, n, threads):
    expected = step(kind, across(n), foreach=False)
    for _ in range(3):
        torch.testing.assert_close(
            step(kind, across(n))["params"], expected["params"], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("n", [300, 70_000])
def test_activate_grad_(n, threads):
    """Each gradient is activated in its turn, as torch's operations would."""

    def lay():
        x = numbers(3 * n)
        params = [x[:n], x[1 : n + 1], x[n // 2 : n // 2 + n]]
        grads = [x[n : 2 * n], x[n + 1 : 2 * n + 1], x[n // 2 + 7 : n // 2 + 7 + n]]
        for p, g in zip(params, grads, strict=True):
            p.grad = g
        return x, params

    x, params = lay()
    expected, others = lay()
    for p in others:
        p.grad.copy_(F(p.grad))
    gaf.activate_grad_(params, F)
    torch.testing.assert_close(x, expected, rtol=1e-6, atol=1e-7)


def test_activate():
    """The gradients of two parameters share memory: what activate_grad_ and torch's own step do."""

    def lay():
        x = numbers(400)
        params = [torch.ones(300), torch.ones(300)]
        for p, g in zip(params, (x[:300], x[1:301]), strict=True):
            p.grad = g
        return params

    params, others = lay(), lay()
    gaf.activate(torch.optim.SGD(params, lr=0.1, momentum=0.9), F).step()
    gaf.activate_grad_(others, F)
    torch.optim.SGD(others, lr=0.1, momentum=0.9).step()
    torch.testing.assert_close(params, others, rtol=1e-6, atol=1e-7)


def test_a_gradient_that_two_parameters_share_is_no_overlap(threads):
    """It is only read: threads go on."""

    def lay():
        p, q, g = numbers(70_000), numbers(70_000, seed=1), numbers(70_000, seed=2)

        def set_grads(opt):
            p.grad = q.grad = g

        return [p, q], set_grads

    expected = step("sgd-momentum", lay, foreach=False)
    torch.testing.assert_close(
        step("sgd-momentum", lay, fused=True)["params"], expected["params"], rtol=1e-5, atol=1e-6
    )
