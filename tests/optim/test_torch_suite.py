"""What torch asks of its own optimizers, asked of ours: the inputs are those of torch's suite.

``torch.testing._internal.common_optimizers`` is installed with torch. Each input runs without an activation
and with two kinds of them.
"""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest
import torch

import gaf

common = pytest.importorskip("torch.testing._internal.common_optimizers")

OURS = {torch.optim.SGD: gaf.SGD, torch.optim.Adam: gaf.Adam, torch.optim.AdamW: gaf.AdamW}
pytestmark = pytest.mark.slow

ACTIVATIONS = (None, "arctan(0.1, 20)", "auto")


def described(*activations: str | None) -> list[Any]:
    """Our class, one of torch's inputs, and an activation."""
    cases = []
    for info in common.optim_db:
        if info.optim_cls not in OURS:
            continue
        for given in info.optim_inputs_func(device="cpu"):
            if given.kwargs.get("capturable"):
                continue  # for graphs of a GPU
            for activation in activations:
                name = f"{info.optim_cls.__name__}-{given.desc}-{activation}"
                cases.append(pytest.param(OURS[info.optim_cls], given.kwargs, activation, id=name))
    for activation in activations:
        cases.append(pytest.param(gaf.Lion, {}, activation, id=f"Lion-{activation}"))
    return cases


every_input = pytest.mark.parametrize(("kind", "kwargs", "activation"), described(*ACTIVATIONS))


def made(kind, kwargs, activation, params, **more):
    return kind(params, **{**copy.deepcopy(kwargs), "activation": activation, **more})


def stepped(opt, params, steps=3, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        for p in params:
            grad = torch.randn(p.shape, dtype=torch.float64, generator=generator) * scale
            p.grad = grad.to(p.dtype)
        opt.step()
    return params


def some_params(*dtypes):
    generator = torch.Generator().manual_seed(1)
    shapes = [(4, 3), (5,)]
    return [
        torch.randn(shape, generator=generator).to(dtype).requires_grad_()
        for dtype in dtypes or (torch.float32,)
        for shape in shapes
    ]


@every_input
def test_goes_in_the_right_direction(kind, kwargs, activation):
    """The loss falls, and grows with maximize."""
    torch.manual_seed(0)
    model, x, y = torch.nn.Linear(5, 1), torch.randn(30, 5), torch.randn(30, 1)
    opt = made(kind, kwargs, activation, model.parameters())
    losses = []
    for _ in range(20):
        opt.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    assert losses[-1] > losses[0] if kwargs.get("maximize") else losses[-1] < losses[0]


@every_input
def test_leaves_no_reference_cycle(kind, kwargs, activation):
    params = some_params()
    opt = made(kind, kwargs, activation, params)
    stepped(opt, params, 1)
    gone = weakref.ref(opt)
    gc.disable()
    try:
        del opt
        assert gone() is None
    finally:
        gc.enable()


@every_input
@pytest.mark.parametrize("way", [copy.deepcopy, lambda opt: pickle.loads(pickle.dumps(opt))])
def test_copies_go_on_alike(kind, kwargs, activation, way):
    params = some_params()
    opt = made(kind, kwargs, activation, params)
    stepped(opt, params)
    twin = way(opt)
    others = [p for group in twin.param_groups for p in group["params"]]
    for a, b in zip(stepped(opt, params), stepped(twin, others), strict=True):
        assert torch.equal(a, b)


@every_input
def test_a_loaded_state_goes_on_alike(kind, kwargs, activation):
    params = some_params()
    opt = made(kind, kwargs, activation, params)
    stepped(opt, params)
    others = [p.detach().clone().requires_grad_() for p in params]
    twin = made(kind, kwargs, activation, others)
    twin.load_state_dict(copy.deepcopy(opt.state_dict()))
    for a, b in zip(stepped(opt, params), stepped(twin, others), strict=True):
        assert torch.equal(a, b)


# Without an activation it is torch's arithmetic, which differs by a rounding; Auto sees a matrix in one and
# three dimensions in the other, and samples them differently.
@pytest.mark.parametrize(("kind", "kwargs", "activation"), described("arctan(0.1, 20)"))
def test_complex_is_the_pair_of_reals(kind, kwargs, activation):
    whole = [torch.linspace(-1, 1, 12).view(3, 4).to(torch.complex64).requires_grad_()]
    parts = [torch.view_as_real(whole[0].detach().clone()).clone().requires_grad_()]
    a, b = (made(kind, kwargs, activation, params, foreach=False) for params in (whole, parts))
    for step in range(3):
        whole[0].grad = torch.full((3, 4), complex(0.1 + step, -0.2))
        parts[0].grad = torch.view_as_real(whole[0].grad).clone()
        a.step()
        b.step()
    assert torch.equal(torch.view_as_real(whole[0].detach()), parts[0].detach())


@every_input
def test_several_dtypes_in_one_group(kind, kwargs, activation):
    """Each is as if it were alone."""
    dtypes = (torch.float32, torch.float64, torch.bfloat16)
    together = some_params(*dtypes)
    stepped(made(kind, kwargs, activation, together), together)
    generator = torch.Generator().manual_seed(0)
    alone = some_params(*dtypes)
    opts = [made(kind, kwargs, activation, [p]) for p in alone]
    for _ in range(3):
        for p, opt in zip(alone, opts, strict=True):
            p.grad = torch.randn(p.shape, dtype=torch.float64, generator=generator).to(p.dtype)
            opt.step()
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b)


@every_input
def test_on_the_meta_device(kind, kwargs, activation):
    params = [torch.empty(4, 3, device="meta", requires_grad=True)]
    opt = made(kind, kwargs, activation, params)
    params[0].grad = torch.empty(4, 3, device="meta")
    opt.step()
    assert params[0].is_meta


@every_input
def test_hooks_run_around_the_step(kind, kwargs, activation):
    params, seen = some_params(), []
    opt = made(kind, kwargs, activation, params)
    opt.register_step_pre_hook(lambda *_: seen.append("before"))
    opt.register_step_post_hook(lambda *_: seen.append("after"))
    opt.register_state_dict_post_hook(lambda *_: seen.append("saved"))
    opt.register_load_state_dict_pre_hook(lambda *_: seen.append("loading"))
    opt.register_load_state_dict_post_hook(lambda *_: seen.append("loaded"))
    stepped(opt, params, 1)
    opt.load_state_dict(opt.state_dict())
    assert seen == ["before", "after", "saved", "loading", "loaded"]


def wrong() -> list[Any]:
    return [
        pytest.param(OURS[info.optim_cls], error, id=f"{info.optim_cls.__name__}-{number}")
        for info in common.optim_db
        if info.optim_cls in OURS
        for number, error in enumerate(info.optim_error_inputs_func("cpu", torch.float32))
        if error.error_on == common.OptimizerErrorEnum.CONSTRUCTION_ERROR
    ]


@pytest.mark.parametrize(("kind", "error"), wrong())
def test_wrong_arguments_are_refused_as_torch_does(kind, error):
    given = error.optimizer_error_input
    expect = pytest.warns if issubclass(error.error_type, Warning) else pytest.raises
    with expect(error.error_type, match=error.error_regex):
        kind(given.params, **given.kwargs)
