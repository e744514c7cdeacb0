"""With an activation, single and foreach agree to the bit on parameters, state and ``p.grad``."""

from __future__ import annotations

import math

import pytest
import torch

import gaf
from gaf.kernels import foreach
from tests.optim.helpers import BUILT_IN, OTHERS
from tests.pairs import one_each, pairs_first

DTYPES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]


def parameters(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (33,), (), (0, 2), (2, 3, 4)]
    params = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    params.append(torch.randn(4, 6, generator=generator).to(dtype).t())
    return [p.requires_grad_() for p in params]


def train(optimizer_type, dtype: torch.dtype, **kwargs):
    params = parameters(dtype)
    opt = optimizer_type(params, **kwargs)
    generator = torch.Generator().manual_seed(1)
    grads = []
    for step in range(8):
        for number, p in enumerate(params):
            # magnitudes from the linear range to saturation
            size = 10.0 ** (-torch.rand(p.shape, generator=generator) * 6 + 1)
            sign = torch.randn(p.shape, generator=generator).sign()
            p.grad = None if number == 1 and step < 2 else (size * sign).to(dtype)
        kept = [None if p.grad is None else p.grad.clone() for p in params]
        opt.param_groups[0]["lr"] = 0.1 / (1 + step)
        opt.step()
        grads.append((kept, [p.grad for p in params]))
    return params, [opt.state[p] for p in params], grads


def check_same(single, many) -> None:
    for a, b in zip(single[0], many[0], strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    for a, b in zip(single[1], many[1], strict=True):
        assert a.keys() == b.keys()
        for key in a:
            assert torch.equal(a[key], b[key]), key
    for before, after in single[2] + many[2]:
        for a, b in zip(before, after, strict=True):
            assert (a is None and b is None) or torch.equal(a, b)


SGD_CASES = [
    {"momentum": 0.9},
    {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    {"momentum": 0.9, "weight_decay": 0.01, "dampening": 0.2, "maximize": True},
    {"momentum": 0.9, "nesterov": True, "maximize": True},
    {"momentum": 0.0, "weight_decay": 0.01},
    {"momentum": 0.0, "maximize": True},
    {"momentum": 0.9, "weight_decay": 0.01, "decoupled_weight_decay": True},
]


@one_each(name=OTHERS, placement=gaf.PLACEMENTS, dtype=DTYPES)
def test_sgd_with_other_functions(name, placement, dtype):
    check_sgd(name, placement, dtype)


@pairs_first(name=BUILT_IN, placement=gaf.PLACEMENTS, dtype=DTYPES)
def test_sgd(name, placement, dtype):
    check_sgd(name, placement, dtype)


def check_sgd(name, placement, dtype):
    for case in SGD_CASES:
        kwargs = {"lr": 0.1, "activation": name, "placement": placement, **case}
        check_same(
            train(gaf.SGD, dtype, foreach=False, **kwargs),
            train(gaf.SGD, dtype, foreach=True, **kwargs),
        )


@one_each(
    name=OTHERS,
    optimizer_type=[gaf.Adam, gaf.AdamW],
    placement=gaf.PLACEMENTS,
    dtype=DTYPES,
)
def test_adam_with_other_functions(name, optimizer_type, placement, dtype):
    check_adam(name, optimizer_type, placement, dtype)


@pairs_first(
    name=BUILT_IN,
    optimizer_type=[gaf.Adam, gaf.AdamW],
    placement=gaf.PLACEMENTS,
    dtype=DTYPES,
)
def test_adam(name, optimizer_type, placement, dtype):
    check_adam(name, optimizer_type, placement, dtype)


def check_adam(name, optimizer_type, placement, dtype):
    cases = [
        {},
        {"weight_decay": 0.1, "maximize": True},
        {"weight_decay": 0.1, "amsgrad": True, "eps_hat": True},
    ]
    if placement != "gradient" and gaf.parse(name).bound < math.inf:
        cases.append({"eps": 0})
    for case in cases:
        kwargs = {"lr": 0.1, "activation": name, "placement": placement, **case}
        check_same(
            train(optimizer_type, dtype, foreach=False, **kwargs),
            train(optimizer_type, dtype, foreach=True, **kwargs),
        )


def test_a_tensor_learning_rate():
    kwargs = {"lr": torch.tensor(0.1), "momentum": 0.9, "activation": "arctan"}

    def run(**how):
        params = parameters(torch.float32)
        opt = gaf.SGD(params, **kwargs, **how)
        for _ in range(3):
            for p in params:
                p.grad = torch.ones_like(p)
            opt.step()
        return params

    assert all(map(torch.equal, run(foreach=False), run(foreach=True)))


def test_a_different_last_bit_is_seen(monkeypatch):
    """A foreach rule that is off by an ulp fails the check."""
    right = foreach.step

    def off(rule, ws, *args, **kwargs):
        states = right(rule, ws, *args, **kwargs)
        ws[0].copy_(torch.nextafter(ws[0], torch.tensor(9.0)))
        return states

    monkeypatch.setattr(foreach, "step", off)
    kwargs = {"lr": 0.1, "momentum": 0.9, "activation": "arctan"}
    single = train(gaf.SGD, torch.float32, foreach=False, **kwargs)
    with pytest.raises(AssertionError):
        check_same(single, train(gaf.SGD, torch.float32, foreach=True, **kwargs))
