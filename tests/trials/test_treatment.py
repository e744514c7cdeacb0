"""Clipping, normalising and centralising act on true gradients, before f, whoever computes or scales them."""

import pytest
import torch

import gaf
from tests.trials.helpers import asked, same, train, weights

TREATMENTS = {
    "clip_norm": {"clip_norm": 0.1},
    "clip_value": {"clip_value": 0.05},
    "normalize": {"normalize": 0.5},
    "centralize": {"centralize": True},
    "both": {"centralize": True, "clip_norm": 0.1},
}


def by_hand(params, centralize=False, clip_norm=None, clip_value=None, normalize=None):
    """What a loop would do before the step."""
    if centralize:
        for p in params:
            if p.ndim > 1:
                p.grad = p.grad - p.grad.flatten(1).mean(1).reshape(-1, *[1] * (p.ndim - 1))
    if clip_norm:
        torch.nn.utils.clip_grad_norm_(params, clip_norm)
    if clip_value:
        torch.nn.utils.clip_grad_value_(params, clip_value)
    if normalize:
        norm = torch.cat([p.grad.flatten() for p in params]).norm()
        for p in params:
            p.grad = p.grad * (normalize / norm)


def loop(make, before=lambda params: None, scaler=None, infinite=None, closure=False):
    """Steps with gradients that may be scaled; one of them may be infinite."""
    params = weights((3, 4), (2, 3, 2), (3,))
    generator = torch.Generator().manual_seed(1)
    opt = make(params)
    for step in range(4):
        loss = sum((p * torch.randn(p.shape, generator=generator)).sum() for p in params)

        def compute(loss=loss, step=step):
            opt.zero_grad()
            (scaler.scale(loss) if scaler else loss).backward()
            if step == infinite:
                params[0].grad[0, 0] = torch.inf
            return loss

        if closure:
            opt.step(compute)
            continue
        compute()
        if scaler is None:
            before(params)
            opt.step()
        else:
            scaler.step(opt)
            scaler.update()
    return [p.detach().clone() for p in params]


@pytest.mark.parametrize("name", TREATMENTS)
@pytest.mark.parametrize("closure", [False, True])
@pytest.mark.parametrize("rule", ["sgd", "rmsprop", "adam"])
def test_as_a_loop_would_do_it(monkeypatch, tmp_path, name, closure, rule):
    treatment = TREATMENTS[name]
    trial = asked(monkeypatch, tmp_path, **treatment)
    made = loop(lambda p: trial.optimizer(rule, p, lr=0.1), closure=closure)
    hand = loop(lambda p: gaf.create_optimizer(rule, p, lr=0.1), lambda p: by_hand(p, **treatment))
    for a, b in zip(made, hand, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)  # of the last bits; 3e-8 observed
    untreated = loop(lambda p: gaf.create_optimizer(rule, p, lr=0.1))
    assert not same(made, untreated)


@pytest.mark.parametrize("name", TREATMENTS)
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("rule", [torch.optim.SGD, gaf.SGD, torch.optim.Adam])
@pytest.mark.parametrize("infinite", [None, 2])
def test_under_a_scaler_gradients_are_treated_as_if_there_were_none(
    monkeypatch, tmp_path, name, fused, rule, infinite
):
    """A fused optimizer is handed scaled ones; a step with inf is left out either way."""
    treatment = TREATMENTS[name]
    trial = asked(monkeypatch, tmp_path, **treatment)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    made = loop(
        lambda p: trial.optimizer(rule, p, lr=0.1, fused=fused), scaler=scaler, infinite=infinite
    )
    skipped = {"left": infinite}

    def before(params):
        by_hand(params, **treatment)
        if skipped["left"] == 0:
            for p in params:
                p.grad = None
        if skipped["left"] is not None:
            skipped["left"] -= 1

    hand = loop(lambda p: rule(p, lr=0.1), before)
    for a, b in zip(made, hand, strict=True):
        assert torch.isfinite(a).all()
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rule", ["sgd", "rmsprop"])  # f inside the rule, and by a hook
def test_f_sees_treated_gradients(monkeypatch, tmp_path, rule):
    trial = asked(
        monkeypatch, tmp_path, clip_norm=0.01, activation="arctan(0.1, 20)", placement="gradient"
    )
    made = loop(lambda p: trial.optimizer(rule, p, lr=0.1))
    name = f"{rule}+arctan(0.1, 20)@gradient"
    hand = loop(
        lambda p: gaf.create_optimizer(name, p, lr=0.1), lambda p: by_hand(p, clip_norm=0.01)
    )
    for a, b in zip(made, hand, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_a_gradient_of_zero_stays_so(monkeypatch, tmp_path):
    trial = asked(monkeypatch, tmp_path, normalize=1.0)
    (w,) = weights((3,))
    before = w.detach().clone()
    opt = trial.optimizer("sgd", [w], lr=0.1)
    w.grad = torch.zeros(3)
    opt.step()
    assert torch.equal(w.detach(), before)


def test_parameters_without_a_gradient_are_passed_over(monkeypatch, tmp_path):
    trial = asked(monkeypatch, tmp_path, clip_norm=1.0, centralize=True)
    params = weights()
    opt = trial.optimizer("sgd", params, lr=0.1)
    train(opt, params[:1])
