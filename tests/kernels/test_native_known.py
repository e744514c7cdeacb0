"""What the native kernels keep from one step to the next: whatever changes in between is seen."""

from __future__ import annotations

import copy
import math

import pytest
import torch

import gaf
from gaf.kernels import native
from gaf.optim.adapt import spacing

if not native.INSTRUCTION_SETS:
    pytest.skip("the native kernels were not built", allow_module_level=True)


def parameters():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, 4, generator=generator).requires_grad_() for _ in range(3)]


def set_gradients(params, step):
    generator = torch.Generator().manual_seed(step)
    for p in params:
        p.grad = torch.randn(4, 4, generator=generator).to(p.dtype)


def new_state(opt, params):
    for p in params:
        for key, value in opt.state[p].items():
            if value.ndim:
                opt.state[p][key] = value * 0.5


def new_memory(opt, params):
    params[1].data = params[1].data.clone()


def transposed_in_place(opt, params):
    params[1].data = params[1].data.t()


def state_transposed_in_place(opt, params):
    for value in opt.state[params[1]].values():
        if value.ndim:
            value.t_()


def gradient_in_another_order(opt, params):
    params[1].grad = params[1].grad.t().contiguous().t()


def gradient_missing(opt, params):
    params[0].grad = None


def gradient_is_a_negation(opt, params):
    x = torch.complex(torch.zeros(4, 4), params[1].grad.clone())
    params[1].grad = torch.conj(x).imag


def state_cleared(opt, params):
    opt.state[params[1]].clear()


def everything_loaded(opt, params):
    opt.load_state_dict(copy.deepcopy(opt.state_dict()))


def one_parameter_less(opt, params):
    del opt.param_groups[0]["params"][1]


def two_swapped(opt, params):
    group = opt.param_groups[0]
    group["params"] = [group["params"][i] for i in (1, 0, 2)]


def another_group(opt, params):
    opt.add_param_group({"params": [torch.ones(2, requires_grad=True)], "activation": "tanh"})
    opt.param_groups[-1]["params"][0].grad = torch.full((2,), 0.3)


def gradient_kept(opt, params):
    params[1].grad.mul_(2)


CHANGES = [
    *(new_state, new_memory, transposed_in_place, gradient_in_another_order, gradient_missing),
    *(gradient_is_a_negation, state_cleared, everything_loaded, one_parameter_less, two_swapped),
    *(another_group, gradient_kept, state_transposed_in_place),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (gaf.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
        (gaf.SGD, {}),
        (gaf.Adam, {"amsgrad": True}),
    ],
    ids=["momentum", "plain", "adam"],
)
def test_a_change_between_steps_is_seen(kind, kwargs, change):
    trained = []
    for how in ({"fused": None, "foreach": None}, {"foreach": False}):
        params = parameters()
        opt = kind(params, lr=0.1, activation="arctan(0.5, 3)", **kwargs, **how)
        for step in range(3):
            set_gradients(params, step)
            opt.step()
        set_gradients(params, 3)
        change(opt, params)
        opt.step()
        set_gradients(params, 4)
        opt.step()
        trained.append((params, opt))
    (ours, _), (reference, _) = trained
    for a, b in zip(ours, reference, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_an_unchanged_list_is_known():
    """The way above is taken: nothing of the full check is asked a second time."""
    params = parameters()
    opt = gaf.SGD(params, lr=0.1, momentum=0.9, activation="arctan")
    for step in range(3):
        set_gradients(params, step)
        opt.step()
    known = opt._known[0]
    set_gradients(params, 3)
    velocities = [opt.state[p]["momentum_buffer"] for p in params]
    assert known.holds(params, [p.grad for p in params], velocities)
    assert not known.holds(params, [p.grad.double() for p in params], velocities)


def test_a_sparse_gradient_after_dense_ones():
    """Sparse gradients have no address: they fall back, as they do in the first step."""
    trained = []
    for how in ({}, {"foreach": False}):
        w = torch.ones(4, 2, requires_grad=True)
        opt = gaf.SGD([w], lr=0.1, activation="arctan", **how)
        for grad in (torch.ones(4, 2), torch.ones(4, 2).to_sparse(), torch.ones(4, 2)):
            w.grad = grad
            opt.step()
        trained.append(w.detach())
    torch.testing.assert_close(*trained)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", native.TYPES, ids=str)
def test_sampled_quantiles_are_those_of_the_sample(dtype, threads):
    """Of gradients that are known: to the bit, by one thread or two, whatever is 0 or not finite."""
    torch.manual_seed(0)
    sizes = [1, 3, 64, 1000, 4099, *(10 + i for i in range(90))]
    ws = [torch.zeros(size, dtype=dtype) for size in sizes]
    gs = [torch.randn(size).to(dtype) for size in sizes]
    gs[2][::3], gs[3][:5] = 0, math.nan
    gs[4][7] = math.inf
    known, before = native.Known(), torch.get_num_threads()
    assert native.refusal("arctan", ws, gs, [None] * len(ws), known=known) is None
    torch.set_num_threads(threads)
    try:
        found = native.sampled_quantiles(known, spacing, 0.5, 3.0)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found, native.quantiles(native.sample(gs, spacing) / 3.0, 0.5))


def test_a_shorter_view_at_the_same_address_is_not_written_beyond_its_end():
    p = torch.nn.Parameter(torch.arange(10.0))
    opt = gaf.SGD([p], lr=1.0, activation="arctan(1, 1)")
    for _ in range(2):
        p.grad = torch.ones(10)
        opt.step()
    whole = p.data
    p.data = whole[:5]
    before = whole.clone()
    with pytest.raises(RuntimeError, match="size"):
        opt.step()
    assert torch.equal(whole[5:], before[5:])


def test_a_sample_is_taken_by_the_sizes_of_this_step(monkeypatch):
    """A pruned parameter whose velocity was not: an error, and nothing is read beyond the gradient."""
    read = []
    sampled = native.sampled_quantiles
    monkeypatch.setattr(
        native,
        "sampled_quantiles",
        lambda known, *rest: (read.append(known.sizes), sampled(known, *rest))[1],
    )
    p = torch.nn.Parameter(torch.randn(4000))
    opt = gaf.SGD([p], lr=0.1, momentum=0.9, activation=gaf.Auto(), placement="gradient")
    for _ in range(2):
        p.grad = torch.randn_like(p)
        opt.step()
    assert read
    assert {tuple(sizes) for sizes in read} == {(4000,)}
    read.clear()
    p.data = torch.randn(10)
    p.grad = torch.randn(10)
    with pytest.raises(RuntimeError, match="size"):
        opt.step()
    assert not read
