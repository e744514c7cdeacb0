"""What holds of every activation that adapts: the ways of a step, checkpoints, skipped steps, loss scales."""

from __future__ import annotations

import io

import pytest
import torch

from tests.optim.helpers import (
    ADAPTIVE,
    EVERY,
    OURS,
    assert_same,
    backward,
    make,
    make_model,
    snapshot,
    train,
)
from tests.optim.test_amp import make_scaler, overflow, scaled_backward


@pytest.mark.parametrize("name", ["sgd-gradient", "sgd-momentum", "sgd-update", "adam", "adamw"])
@pytest.mark.parametrize(
    "auto", ["auto", *(pytest.param(auto, marks=pytest.mark.slow) for auto in ADAPTIVE[1:])]
)
def test_ways_agree(auto, name):
    """Single and foreach to the bit; native, and compiled where a curve has no kernel, to a few ulp."""

    def run(**how):
        model = make_model()
        opt = OURS[name](model.parameters(), activation=auto)
        for group in opt.param_groups:
            group.update(how)
        train(model, opt, 4)
        return snapshot(opt)

    single = run(foreach=False, fused=False)
    assert_same(run(foreach=True, fused=False), single)
    fused = run(foreach=None, fused=True)
    for a, b in zip(fused["params"], single["params"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)  # observed: 2e-7
    for a, b in zip(fused["state"], single["state"], strict=True):
        torch.testing.assert_close(a["gaf_auto"], b["gaf_auto"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, torch.float32) for name in EVERY),
        *((f"ours:{name}", torch.bfloat16) for name in OURS),
    ],
)
@pytest.mark.parametrize("auto", ADAPTIVE)
def test_a_checkpoint_goes_on_to_the_bit(auto, name, dtype):
    whole, half = make_model().to(dtype), make_model().to(dtype)

    def steps(model, opt, numbers):
        for step in numbers:
            generator = torch.Generator().manual_seed(step)
            for p in model.parameters():
                p.grad = torch.randn(p.shape, generator=generator).to(dtype) * 1e-4
            opt.step()

    opt, first = (make(name, m.parameters(), auto) for m in (whole, half))
    steps(whole, opt, range(5))
    steps(half, first, range(3))
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = make(name, half.parameters(), auto)
    second.load_state_dict(torch.load(file, weights_only=True))
    steps(half, second, range(3, 5))
    assert_same(snapshot(second), snapshot(opt))


def kept(opt):
    """What Auto has kept, by parameter."""
    params = (p for group in opt.param_groups for p in group["params"])
    states = [opt.state[p].get("gaf_auto") if p in opt.state else None for p in params]
    return [None if state is None else state.clone() for state in states]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("auto", ADAPTIVE)
def test_a_skipped_step_leaves_no_trace(auto, name):
    model = make_model()
    opt, scaler = make(name, model.parameters(), auto), make_scaler()
    for step in range(3):
        overflow(model, scaler, step)
        before = kept(opt)
        scaler.step(opt)
        scaler.update()
        after = kept(opt)
        assert_same(after, before, f"step {step}")
        scaled_backward(model, scaler, step)
        scaler.step(opt)
        scaler.update()


@pytest.mark.parametrize("name", ["ours:sgd-momentum", "ours:adam", "activated:adam-fused"])
@pytest.mark.parametrize("auto", ADAPTIVE)
def test_a_loss_scale_does_not_matter(auto, name):
    plain, scaled = make_model(), make_model()
    opt, scaled_opt = (
        make(name, plain.parameters(), auto),
        make(name, scaled.parameters(), auto),
    )
    scaler = make_scaler()
    for step in range(3):
        backward(plain, step)
        opt.step()
        scaled_backward(scaled, scaler, step)
        scaler.step(scaled_opt)
        scaler.update()
    assert_same(snapshot(scaled_opt)["state"], snapshot(opt)["state"])
    assert_same(snapshot(scaled_opt)["params"], snapshot(opt)["params"])
