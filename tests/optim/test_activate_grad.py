"""gaf.activate_grad_: the functional form, beside clipping."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import gaf
from tests.optim.helpers import (
    BUILT_IN,
    OTHERS,
    F,
    assert_same,
    backward,
    loss_of,
    make,
    make_model,
)

NAN, INF = math.nan, math.inf


def with_grads(*grads):
    params = []
    for grad in grads:
        p = torch.zeros_like(grad).requires_grad_()
        p.grad = grad
        params.append(p)
    return params


def sparse(indices, values, size=6):
    return torch.sparse_coo_tensor([indices], values, (size,))


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("function", [*(f"{name}(0.1, 20)" for name in BUILT_IN), *OTHERS])
def test_each_gradient_becomes_f_of_it_in_place(function):
    f = gaf.parse(function)
    model = make_model()
    backward(model, 0)
    given = [(p.grad, p.grad.clone()) for p in model.parameters()]
    gaf.activate_grad_(model.parameters(), function)
    for p, (tensor, before) in zip(model.parameters(), given, strict=True):
        assert p.grad is tensor
        assert_same(p.grad, f(before))


@pytest.mark.parametrize(
    ("grads", "largest"),
    [
        ([torch.tensor([0.5, -3.0]), torch.tensor(2.0)], 3.0),
        ([torch.tensor([0.5, NAN]), torch.tensor([9.0])], NAN),
        ([torch.tensor([0.5]), torch.tensor([-INF, 1.0])], INF),
        ([torch.tensor([3.0 - 4.0j, 1.0 + 0.5j])], 4.0),  # real and imaginary parts apart
        ([torch.tensor([0.25]), sparse([1, 1, 3], [2.0, 3.0, -4.0])], 5.0),  # duplicates summed
        ([torch.zeros(0), torch.zeros(2, 0)], 0.0),
        ([torch.tensor([1.0]), torch.zeros(0)], 1.0),
        ([torch.tensor([1.5], dtype=torch.float16), torch.tensor([2.5])], 2.5),
        ([torch.tensor([1e300], dtype=torch.float64), torch.tensor([1.0])], 1e300),
        ([torch.tensor([60000.0], dtype=torch.float16)], 60000.0 // 32 * 32),
        ([], 0.0),
    ],
)
def test_returns_the_largest_absolute_gradient(grads, largest):
    result = gaf.activate_grad_(with_grads(*grads), F)
    assert isinstance(result, torch.Tensor)
    assert result.shape == ()
    assert not result.requires_grad
    assert result.item() == largest or (math.isnan(largest) and result.isnan())


@pytest.mark.usefixtures("no_kernels")
def test_a_single_tensor_a_generator_and_none():
    (w,) = with_grads(torch.tensor([0.5, -3.0]))
    assert gaf.activate_grad_(w, F).item() == 3.0
    assert_same(w.grad, F(torch.tensor([0.5, -3.0])))
    params = with_grads(torch.tensor([1.0]), torch.tensor([2.0]))
    assert gaf.activate_grad_((p for p in params), F).item() == 2.0
    assert_same([p.grad for p in params], [F(torch.tensor([1.0])), F(torch.tensor([2.0]))])
    alone = torch.zeros(3, requires_grad=True)
    assert_same(gaf.activate_grad_([alone, *params], F), F(torch.tensor(2.0)))
    assert alone.grad is None
    assert gaf.activate_grad_([alone], F).item() == 0.0
    assert gaf.activate_grad_([], F).item() == 0.0


@pytest.mark.usefixtures("no_kernels")
def test_a_parameter_named_twice_is_activated_once():
    (w,) = with_grads(torch.tensor([0.5, -3.0]))
    gaf.activate_grad_([w, w], F)
    assert_same(w.grad, F(torch.tensor([0.5, -3.0])))


def test_sparse_gradients_stay_sparse():
    dense = torch.zeros(6)
    dense[1], dense[3] = 5.0, -4.0
    (w,) = with_grads(sparse([1, 1, 3], [2.0, 3.0, -4.0]))
    gaf.activate_grad_([w], F)
    assert w.grad.is_sparse
    assert w.grad.is_coalesced()
    assert_same(w.grad.to_dense(), F(dense))


def test_complex_gradients_are_activated_by_parts():
    g = torch.tensor([3.0 - 4.0j, 0.01 + 0.5j])
    (w,) = with_grads(g.clone())
    gaf.activate_grad_([w], F)
    assert_same(w.grad, torch.complex(F(g.real.contiguous()), F(g.imag.contiguous())))


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("kind", ["dense", "sparse", "complex", "half"])
def test_error_if_nonfinite_raises_before_anything_is_modified(bad, kind):
    last = {
        "dense": torch.tensor([1.0, bad]),
        "sparse": sparse([0, 2], [1.0, bad]),
        "complex": torch.tensor([complex(1.0, bad)]),
        "half": torch.tensor([1.0, bad], dtype=torch.bfloat16),
    }[kind]
    params = with_grads(torch.tensor([0.5, -3.0]), torch.zeros(0), last)
    tensors, before = [p.grad for p in params], [p.grad.clone() for p in params]
    monitor = gaf.Monitor()
    with pytest.raises(RuntimeError, match=r"inf or NaN, so nothing was activated"):
        gaf.activate_grad_(params, F, error_if_nonfinite=True, monitor=monitor)
    for p, tensor, value in zip(params, tensors, before, strict=True):
        assert p.grad is tensor
        assert_same(p.grad, value)
    assert monitor.records == []
    gaf.activate_grad_(params, F)  # without it f of inf and NaN is what f says
    assert_same(params[0].grad, F(torch.tensor([0.5, -3.0])))


@pytest.mark.usefixtures("no_kernels")
def test_error_if_nonfinite_lets_finite_gradients_pass():
    (w,) = with_grads(torch.tensor([0.5, -3.4e38]))
    assert gaf.activate_grad_([w], F, error_if_nonfinite=True).item() == pytest.approx(3.4e38)
    assert_same(w.grad, F(torch.tensor([0.5, -3.4e38])))


def test_clip_grad_norm_before_and_after():
    g = torch.tensor([3.0, -4.0])  # norm 5
    before, after = with_grads(g.clone(), g.clone())
    nn.utils.clip_grad_norm_([before], 0.1)
    gaf.activate_grad_([before], F)
    gaf.activate_grad_([after], F)
    nn.utils.clip_grad_norm_([after], 0.1)
    # clipped first, f sees (0.06, -0.08); activated first, (0.1 atan 60, -0.1 atan 80) is clipped
    small = [0.1 * math.atan(20 * 0.06), -0.1 * math.atan(20 * 0.08)]
    squashed = [0.1 * math.atan(60), -0.1 * math.atan(80)]
    norm = math.hypot(*squashed)
    torch.testing.assert_close(before.grad, torch.tensor(small), rtol=1e-5, atol=0)
    torch.testing.assert_close(
        after.grad, torch.tensor([0.1 / norm * x for x in squashed]), rtol=1e-5, atol=0
    )
    # norm clipping keeps the direction, f does not
    assert abs(before.grad[0] / before.grad[1] + 3 / 4) > 0.1


def test_clip_grad_value_before_and_after():
    g = torch.tensor([0.001, 0.2, -4.0])
    before, after = with_grads(g.clone(), g.clone())
    nn.utils.clip_grad_value_([before], 0.1)
    gaf.activate_grad_([before], F)
    gaf.activate_grad_([after], F)
    nn.utils.clip_grad_value_([after], 0.1)
    clipped_first = [0.1 * math.atan(20 * x) for x in (0.001, 0.1, -0.1)]
    activated_first = [0.1 * math.atan(20 * 0.001), 0.1, -0.1]  # f(0.2) = 0.13, f(-4) = -0.16
    torch.testing.assert_close(before.grad, torch.tensor(clipped_first), rtol=1e-5, atol=0)
    torch.testing.assert_close(after.grad, torch.tensor(activated_first), rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", ["ours:sgd", "activated:sgd-single", "activated:sgd-fused"])
def test_a_step_sees_gradients_that_were_clipped_before_it(name):
    (w,) = with_grads(torch.tensor([3.0, -4.0]))
    opt = make(name, [w])
    nn.utils.clip_grad_norm_([w], 0.1)  # (0.06, -0.08)
    opt.step()
    expected = [-0.1 * 0.1 * math.atan(20 * 0.06), 0.1 * 0.1 * math.atan(20 * 0.08)]
    torch.testing.assert_close(w.detach(), torch.tensor(expected), rtol=1e-5, atol=0)


def test_accumulation_is_activated_once_after_the_sum():
    model, summed, apart = make_model(), make_model(), make_model()
    for step in range(2):
        loss_of(model, step).backward()
    (loss_of(summed, 0) + loss_of(summed, 1)).backward()
    gaf.activate_grad_(model.parameters(), F)
    for p, q in zip(model.parameters(), summed.parameters(), strict=True):
        torch.testing.assert_close(p.grad, F(q.grad), rtol=1e-5, atol=1e-6)
    # and the sum of f is something else
    total = [torch.zeros_like(p) for p in apart.parameters()]
    for step in range(2):
        backward(apart, step)
        gaf.activate_grad_(apart.parameters(), F)
        total = [t + p.grad for t, p in zip(total, apart.parameters(), strict=True)]
    worst = max((t - p.grad).abs().max() for t, p in zip(total, model.parameters(), strict=True))
    assert worst > 1e-2


def test_channels_last_and_strided_gradients_keep_their_layout():
    g = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    base = torch.randn(6, 4)
    strided = base.t()[:, ::2]
    params = with_grads(g.clone(), strided)
    expected = [F(g), F(strided)]
    strides = [p.grad.stride() for p in params]
    gaf.activate_grad_(params, F)
    assert [p.grad.stride() for p in params] == strides
    assert_same([p.grad for p in params], expected)
    assert_same(base.t()[:, ::2], expected[1])  # in place, in the memory it was


def test_inference_and_autograd_are_left_alone():
    (w,) = with_grads(torch.tensor([0.5]))
    gaf.activate_grad_([w], F)
    assert not w.grad.requires_grad
    assert torch.is_grad_enabled()
