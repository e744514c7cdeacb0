"""Loss scaling by a real GradScaler: f sees true gradients, and a skipped step leaves no trace."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import gaf
from tests.optim.helpers import (
    EVERY,
    FUSED,
    OURS,
    F,
    assert_same,
    backward,
    grads_of,
    loss_of,
    make,
    make_model,
    parameters_of,
    snapshot,
    train,
)

# Whether torch's fused Adagrad unscales by itself, as its other fused optimizers do; older ones do not.
_ADAGRAD = torch.optim.Adagrad([torch.zeros(1)], fused=True)
ADAGRAD_UNSCALES = getattr(_ADAGRAD, "_step_supports_amp_scaling", False)

SCALE = 2.0**16  # a power of two: scaling and unscaling are exact, so "equal" means to the bit


def make_scaler(scale: float = SCALE) -> torch.amp.GradScaler:
    return torch.amp.GradScaler(device="cpu", init_scale=scale, growth_interval=10**6)


def scaled_backward(model, scaler, step, factor=1.0):
    model.zero_grad(set_to_none=True)
    scaler.scale(factor * loss_of(model, step)).backward()


def overflow(model, scaler, step):
    """Scaled gradients with an inf in the first weight."""
    scaled_backward(model, scaler, step)
    model[0].weight.grad[0, 0] = torch.inf


@pytest.mark.parametrize("unscale_first", [False, True], ids=["", "unscale_first"])
@pytest.mark.parametrize("name", EVERY)
def test_scaled_training_is_training(name, unscale_first):
    plain, scaled = make_model(), make_model()
    opt, scaled_opt = make(name, plain.parameters()), make(name, scaled.parameters())
    scaler = make_scaler()
    monitor, scaled_monitor = gaf.Monitor(opt), gaf.Monitor(scaled_opt)
    for step in range(4):
        backward(plain, step)
        opt.step()
        scaled_backward(scaled, scaler, step)
        if unscale_first:
            scaler.unscale_(scaled_opt)
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt), f"step {step}")
    assert scaled_monitor.records == monitor.records
    assert len(monitor.records) == 4
    assert not hasattr(scaled_opt, "grad_scale")
    assert not hasattr(scaled_opt, "found_inf")


@pytest.mark.parametrize("unscale_first", [False, True], ids=["", "unscale_first"])
@pytest.mark.parametrize("cls", [gaf.SGD, gaf.Adam, gaf.AdamW])
def test_ours_fused_without_an_activation(cls, unscale_first):
    hyper = {"lr": 0.05, "fused": True} | ({"momentum": 0.9} if cls is gaf.SGD else {})
    plain, scaled = make_model(), make_model()
    opt, scaled_opt = cls(plain.parameters(), **hyper), cls(scaled.parameters(), **hyper)
    scaler = make_scaler()
    for step in range(4):
        backward(plain, step)
        opt.step()
        scaled_backward(scaled, scaler, step)
        if unscale_first:
            scaler.unscale_(scaled_opt)
        assert scaled_opt._step_supports_amp_scaling
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt), f"step {step}")


def test_ours_with_a_fused_group_and_an_activated_one():
    def groups(model):
        return [
            {"params": model[0].parameters(), "activation": None, "fused": True},
            {"params": model[2].parameters()},
        ]

    plain, scaled = make_model(), make_model()
    opt = gaf.SGD(groups(plain), lr=0.1, momentum=0.9, activation=F)
    scaled_opt = gaf.SGD(groups(scaled), lr=0.1, momentum=0.9, activation=F)
    assert not scaled_opt._step_supports_amp_scaling  # the scaler must unscale for the second group
    scaler = make_scaler()
    for step in range(3):
        backward(plain, step)
        opt.step()
        scaled_backward(scaled, scaler, step)
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt))


def test_activated_fused_with_a_group_that_has_none():
    def activated(model):
        return gaf.activate(
            torch.optim.SGD(
                [
                    {"params": model[0].parameters(), "activation": None},
                    {"params": model[2].parameters()},
                ],
                lr=0.1,
                fused=True,
            ),
            F,
        )

    plain, scaled = make_model(), make_model()
    opt, scaled_opt, scaler = activated(plain), activated(scaled), make_scaler()
    for step in range(3):
        backward(plain, step)
        opt.step()
        scaled_backward(scaled, scaler, step)
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt))


@pytest.mark.parametrize("first_step", [False, True], ids=["", "first_step"])
@pytest.mark.parametrize("unscale_first", [False, True], ids=["", "unscale_first"])
@pytest.mark.parametrize("name", EVERY)
def test_a_step_skipped_for_inf_leaves_no_trace(name, unscale_first, first_step):
    plain, scaled = make_model(), make_model()
    opt, scaled_opt = make(name, plain.parameters()), make(name, scaled.parameters())
    monitor, scaler = gaf.Monitor(scaled_opt), make_scaler()
    done = 0 if first_step else 2
    train(plain, opt, done)
    for step in range(done):
        scaled_backward(scaled, scaler, step)
        scaler.step(scaled_opt)
        scaler.update()
    before, records = snapshot(scaled_opt), copy.deepcopy(monitor.records)

    overflow(scaled, scaler, 99)
    if unscale_first:
        scaler.unscale_(scaled_opt)
    given = grads_of(scaled_opt)
    scaler.step(scaled_opt)
    after = snapshot(scaled_opt)
    assert_same(after["params"], before["params"])
    assert_same(after["state"], before["state"])
    assert monitor.records == records
    unscales = name.endswith("fused") and ("adagrad" not in name or ADAGRAD_UNSCALES)
    if unscale_first or unscales:
        assert_same(after["grads"], given)
    else:  # scaler.step has unscaled them, which is its right
        assert_same(after["grads"], [g / SCALE for g in given])
    scaler.update()
    assert scaler.get_scale() == SCALE / 2

    for step in range(done, done + 2):  # and the next steps are right again
        backward(plain, step)
        opt.step()
        scaled_backward(scaled, scaler, step)
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt), f"step {step}")
    assert len(monitor.records) == done + 2


@pytest.mark.parametrize("cls", [gaf.SGD, gaf.Adam])
def test_ours_fused_skips_its_first_step(cls):
    # torch's fused SGD leaves a momentum buffer that nothing has written; ours does not keep it
    hyper = {"lr": 0.05, "fused": True}
    hyper |= {"momentum": 0.9, "dampening": 0.1} if cls is gaf.SGD else {}
    plain, scaled = make_model(), make_model()
    opt, scaled_opt = cls(plain.parameters(), **hyper), cls(scaled.parameters(), **hyper)
    scaler = make_scaler()
    overflow(scaled, scaler, 99)
    scaler.step(scaled_opt)
    scaler.update()
    for step in range(3):
        backward(plain, step)
        opt.step()
        scaled_backward(scaled, scaler, step)
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt), f"step {step}")


@pytest.mark.parametrize("name", EVERY)
def test_clipping_between_unscale_and_step(name):
    plain, scaled = make_model(), make_model()
    opt, scaled_opt = make(name, plain.parameters()), make(name, scaled.parameters())
    scaler = make_scaler()
    for step in range(3):
        backward(plain, step)
        norm = nn.utils.clip_grad_norm_(plain.parameters(), 0.05)
        opt.step()
        scaled_backward(scaled, scaler, step)
        scaler.unscale_(scaled_opt)
        assert nn.utils.clip_grad_norm_(scaled.parameters(), 0.05) == norm > 0.05
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt), f"step {step}")


@pytest.mark.parametrize("name", EVERY)
def test_a_scale_that_is_no_power_of_two(name):
    plain, scaled = make_model(), make_model()
    opt, scaled_opt = make(name, plain.parameters()), make(name, scaled.parameters())
    scaler = make_scaler(1000.3)
    for step in range(2):
        backward(plain, step)
        opt.step()
        scaled_backward(scaled, scaler, step)
        scaler.step(scaled_opt)
        scaler.update()
    # observed: 1e-6; f of scaled gradients would be off by 1e-2 and more
    for p, q in zip(plain.parameters(), scaled.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUSED)
def test_a_scale_set_by_hand_survives(name):
    def halved(model, step):
        model.zero_grad(set_to_none=True)
        (2 * loss_of(model, step)).backward()

    plain, by_hand, both = make_model(), make_model(), make_model()
    opt = make(f"activated:{name}", plain.parameters())
    hand_opt = make(f"activated:{name}", by_hand.parameters())
    both_opt = make(f"activated:{name}", both.parameters())
    scaler = make_scaler()
    two = torch.tensor(2.0)
    hand_opt.grad_scale = two
    for step in range(3):
        backward(plain, step)
        opt.step()
        halved(by_hand, step)
        hand_opt.step()
        assert hand_opt.grad_scale is two
        both_opt.grad_scale = two  # GradScaler multiplies it with its own, then deletes it
        scaled_backward(both, scaler, step, factor=2.0)
        scaler.step(both_opt)
        scaler.update()
        assert_same(snapshot(hand_opt), snapshot(opt))
        assert_same(snapshot(both_opt), snapshot(opt))


@pytest.mark.parametrize("name", EVERY)
def test_a_step_that_raises_does_not_spoil_the_next(name):
    def interrupt(optimizer, args, kwargs):
        raise KeyboardInterrupt

    plain, scaled = make_model(), make_model()
    opt, scaled_opt = make(name, plain.parameters()), make(name, scaled.parameters())
    scaler = make_scaler()
    handle = scaled_opt.register_step_pre_hook(interrupt)
    scaled_backward(scaled, scaler, 99)
    with pytest.raises(KeyboardInterrupt):
        scaler.step(scaled_opt)
    handle.remove()
    scaler.update()
    for step in range(3):
        backward(plain, step)
        opt.step()
        scaled_backward(scaled, scaler, step)
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt), f"step {step}")


@pytest.mark.parametrize("name", OURS)
def test_ours_never_change_the_gradient(name):
    model, reference = make_model(), make_model()
    opt, scaler = make(f"ours:{name}", model.parameters()), make_scaler()
    for step in range(3):
        reference.load_state_dict(model.state_dict())
        backward(reference, step)
        scaled_backward(model, scaler, step)
        tensors = [p.grad for p in model.parameters()]
        scaler.step(opt)
        scaler.update()
        for p, q, tensor in zip(model.parameters(), reference.parameters(), tensors, strict=True):
            assert p.grad is tensor
            assert_same(p.grad, q.grad)  # what the scaler unscaled, and nothing else


def test_activate_grad_between_unscale_and_step():
    plain, scaled = make_model(), make_model()
    opt, scaled_opt = (torch.optim.Adam(m.parameters(), fused=True) for m in (plain, scaled))
    scaler = make_scaler()
    for step in range(3):
        backward(plain, step)
        gaf.activate_grad_(plain.parameters(), F)
        opt.step()
        scaled_backward(scaled, scaler, step)
        scaler.unscale_(scaled_opt)
        gaf.activate_grad_(scaled.parameters(), F)
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt))


def test_a_bounded_f_after_unscale_does_not_hide_an_overflow():
    model, scaler = make_model(), make_scaler()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    before = snapshot(opt)["params"]
    overflow(model, scaler, 0)
    scaler.unscale_(opt)
    gaf.activate_grad_(model.parameters(), F)
    assert all(g.isfinite().all() for g in grads_of(opt))
    scaler.step(opt)
    scaler.update()
    assert_same(snapshot(opt)["params"], before)


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_sparse_gradients_under_a_scaler(placement):
    def run(scaler):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            table = nn.Embedding(6, 3, sparse=True)
        opt = gaf.SGD(table.parameters(), lr=0.1, momentum=0.9, activation=F, placement=placement)
        for step in range(3):
            opt.zero_grad()
            loss = (table(torch.tensor([step, 4, 4])) ** 2).sum()
            if scaler is None:
                loss.backward()
                opt.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
        return table.weight

    assert_same(run(make_scaler()), run(None))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUSED)
def test_half_precision_gradients_are_unscaled_and_activated_with_one_rounding(name, dtype):
    opt = FUSED[name]([torch.zeros(4, dtype=dtype, requires_grad=True)])
    gaf.activate(opt, gaf.Arctan(10.0, 100.0))  # slope 1000: lifts what fp16 would flush to 0
    (p,) = parameters_of(opt)
    scale = torch.tensor(2.0**20)
    true = torch.tensor([3e-8, -1.2345e-7, 1e-3, 0.0])
    p.grad = (true * scale).to(dtype)
    expected = gaf.Arctan(10.0, 100.0)(p.grad.float() / scale).to(dtype)
    opt.grad_scale = scale
    opt.step()
    assert_same(p.grad, expected)


class ScalesItself(torch.optim.SGD):
    """The older contract with GradScaler: step() takes the scaler itself."""

    _step_supports_amp_scaling = True

    def step(self, closure=None, *, grad_scaler=None):
        return super().step(closure)


def test_an_optimizer_that_takes_the_scaler_itself_is_refused():
    model, scaler = make_model(), make_scaler()
    opt = gaf.activate(ScalesItself(model.parameters(), lr=0.1), F)
    scaled_backward(model, scaler, 0)
    with (
        pytest.warns(FutureWarning, match="stop passing itself"),
        pytest.raises(RuntimeError, match=r"ScalesItself unscales gradients inside its own step"),
    ):
        scaler.step(opt)


def test_a_disabled_scaler_takes_a_closure():
    model, other = make_model(), make_model()
    opt = gaf.activate(torch.optim.Adam(model.parameters(), fused=True), F)
    plain = gaf.activate(torch.optim.Adam(other.parameters(), fused=True), F)
    scaler = torch.amp.GradScaler(device="cpu", enabled=False)
    scaler.step(opt, lambda: backward(model, 0))
    plain.step(lambda: backward(other, 0))
    assert_same(snapshot(opt), snapshot(plain))


@pytest.mark.parametrize("name", ["ours:sgd-momentum", "ours:adam", "activated:sgd-fused"])
def test_two_optimizers_share_a_scaler_and_one_overflows(name):
    one, two, reference = make_model(1), make_model(2), make_model(2)
    opts = [make(name, m.parameters()) for m in (one, two, reference)]
    scaler = make_scaler()
    before = snapshot(opts[0])["params"]
    overflow(one, scaler, 0)
    scaled_backward(two, scaler, 0)
    scaler.step(opts[0])
    scaler.step(opts[1])
    scaler.update()
    train(reference, opts[2], 1)
    assert_same(snapshot(opts[0])["params"], before)
    assert_same(snapshot(opts[1]), snapshot(opts[2]))


@pytest.mark.parametrize("name", EVERY)
def test_accumulation_under_a_scaler(name):
    plain, scaled = make_model(), make_model()
    opt, scaled_opt = make(name, plain.parameters()), make(name, scaled.parameters())
    scaler = make_scaler()
    for first in (0, 2):
        opt.zero_grad()
        scaled_opt.zero_grad()
        for step in (first, first + 1):
            loss_of(plain, step).backward()
            scaler.scale(loss_of(scaled, step)).backward()
        opt.step()
        scaler.step(scaled_opt)
        scaler.update()
        assert_same(snapshot(scaled_opt), snapshot(opt))
