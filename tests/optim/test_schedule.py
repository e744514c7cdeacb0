"""Schedules: of f's parameters by ParamScheduler and Ramp, of the learning rate by torch's own."""

from __future__ import annotations

import math

import pytest
import torch
from torch.optim import lr_scheduler

import gaf
from tests.optim.helpers import (
    EVERY,
    FOREIGN,
    OURS,
    F,
    assert_same,
    backward,
    make,
    make_model,
    parameters_of,
    snapshot,
)

LR = {
    "StepLR": lambda opt: lr_scheduler.StepLR(opt, step_size=2, gamma=0.5),
    "LambdaLR": lambda opt: lr_scheduler.LambdaLR(opt, lambda step: 1 / (1 + step)),
    "OneCycleLR": lambda opt: lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=8),
}
# OneCycleLR cycles the momentum (or Adam's beta), which these optimizers do not have.
NO_MOMENTUM = {"adagrad", "adagrad-fused", "asgd", "rprop"}
PAIRS = [
    (scheduler, name)
    for scheduler in LR
    for name in FOREIGN
    if not (scheduler == "OneCycleLR" and name in NO_MOMENTUM)
]


def run(model, opt, *schedulers, steps=6, f=None):
    """Training with schedulers; f activates by hand. Returns what each step was done with."""
    used = []
    for step in range(steps):
        backward(model, step)
        if f is not None:
            for p in parameters_of(opt):
                p.grad.copy_(f(p.grad))
        group = opt.param_groups[0]
        used.append((group["lr"], group.get("momentum"), group.get("betas")))
        opt.step()
        for scheduler in schedulers:
            scheduler.step()
    return used


@pytest.mark.parametrize(("scheduler", "name"), PAIRS)
def test_before_and_after_activate_are_the_same(scheduler, name):
    models = [make_model() for _ in range(3)]
    opts = [FOREIGN[name](model.parameters()) for model in models]
    before = LR[scheduler](opts[0])
    gaf.activate(opts[0], F)
    gaf.activate(opts[1], F)
    after = LR[scheduler](opts[1])
    by_hand = LR[scheduler](opts[2])
    used = [
        run(models[0], opts[0], before),
        run(models[1], opts[1], after),
        run(models[2], opts[2], by_hand, f=F),
    ]
    assert used[0] == used[1] == used[2]
    assert len(set(used[0])) > 1
    assert_same(snapshot(opts[0]), snapshot(opts[2]))
    assert_same(snapshot(opts[1]), snapshot(opts[2]))


@pytest.mark.parametrize("scheduler", ["StepLR", "OneCycleLR"])
def test_deactivate_under_a_scheduler(scheduler):
    model, judge = make_model(), make_model()
    opt, other = (torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, judge))
    mine, theirs = LR[scheduler](opt), LR[scheduler](other)
    gaf.activate(opt, F)
    gaf.deactivate(opt)
    assert run(model, opt, mine) == run(judge, other, theirs)
    assert_same(snapshot(opt), snapshot(other))


TWINS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "sgd-gradient": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda params: torch.optim.Adam(params, lr=0.01, weight_decay=0.01),
}


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("scheduler", LR)
@pytest.mark.parametrize("name", TWINS)
def test_ours_on_a_schedule_are_torchs_on_activated_gradients(scheduler, name):
    model, judge = make_model(), make_model()
    opt, other = OURS[name](model.parameters(), activation=F), TWINS[name](judge.parameters())
    assert run(model, opt, LR[scheduler](opt)) == run(judge, other, LR[scheduler](other), f=F)
    assert_same(snapshot(opt)["params"], snapshot(other)["params"])
    assert_same(snapshot(opt)["state"], snapshot(other)["state"])


@pytest.mark.parametrize("scheduler", LR)
@pytest.mark.parametrize("name", OURS)
def test_ours_follow_what_the_scheduler_writes(scheduler, name):
    """The scheduled run equals one whose groups are set by hand to the values it used."""
    model, judge = make_model(), make_model()
    opt, other = (OURS[name](m.parameters(), activation=F) for m in (model, judge))
    used = run(model, opt, LR[scheduler](opt))
    assert len({lr for lr, _, _ in used}) > 2
    for step, (lr, momentum, betas) in enumerate(used):
        group = other.param_groups[0]
        group["lr"] = lr
        if momentum is not None:
            group["momentum"] = momentum
        if betas is not None:
            group["betas"] = betas
        backward(judge, step)
        other.step()
    assert_same(snapshot(opt), snapshot(other))


def test_ramp_by_values():
    line = gaf.Ramp(0.5, 1.5, steps=4)
    assert [line(step) for step in range(6)] == [0.5, 0.75, 1.0, 1.25, 1.5, 1.5]
    down = gaf.Ramp(2.0, 1.0, steps=2)
    assert [down(step) for step in range(4)] == [2.0, 1.5, 1.0, 1.0]
    wave = gaf.Ramp(1.0, 2.0, steps=4, cosine=True)
    assert [wave(step) for step in (0, 2, 4, 5)] == pytest.approx([1.0, 1.5, 2.0, 2.0])
    assert wave(1) == pytest.approx(1.5 - math.sqrt(2) / 4)
    assert gaf.Ramp(1.0, 2.0, 3) == gaf.Ramp(1.0, 2.0, 3)  # a frozen value
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        gaf.Ramp(1.0, 2.0, steps=0)
    for start, end in ((0.0, 1.0), (1.0, -2.0), (math.inf, 1.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="start and end must be positive and finite"):
            gaf.Ramp(start, end, steps=3)


@pytest.mark.parametrize("name", EVERY)
def test_values_per_step(name):
    model = make_model()
    opt = make(name, model.parameters(), gaf.Arctan(0.1, 20))
    schedule = gaf.ParamScheduler(
        opt, alpha=gaf.Ramp(2.0, 1.0, 4), beta=lambda step: 1 / (1 + step)
    )
    seen = []
    for step in range(6):
        seen.append(gaf.activation_of(opt.param_groups[0]))
        assert schedule.get_last_params() == [seen[-1].params]
        backward(model, step)
        opt.step()
        schedule.step()
    alphas = [0.2, 0.175, 0.15, 0.125, 0.1, 0.1]
    assert [f.alpha for f in seen] == pytest.approx(alphas, rel=1e-15)
    assert [f.beta for f in seen] == pytest.approx([20 / (1 + s) for s in range(6)], rel=1e-15)


@pytest.mark.parametrize("name", EVERY)
def test_the_scheduled_function_is_what_acts(name):
    model, judge = make_model(), make_model()
    opt, other = make(name, model.parameters()), make(name, judge.parameters())
    schedule = gaf.ParamScheduler(opt, alpha=gaf.Ramp(0.1, 3.0, 3))
    for step in range(4):
        backward(model, step)
        opt.step()
        schedule.step()
        f = gaf.Arctan(0.1 * gaf.Ramp(0.1, 3.0, 3)(step), 20)
        other.param_groups[0]["gaf_params"] = f.params
        backward(judge, step)
        other.step()
        assert_same(snapshot(opt), snapshot(other), f"step {step}")


@pytest.mark.parametrize("name", ["ours:sgd-momentum", "ours:adam", "activated:rmsprop"])
def test_resume_through_a_file(name, tmp_path):
    def build(model):
        opt = make(name, model.parameters())
        lr = lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
        return opt, lr, gaf.ParamScheduler(opt, alpha=gaf.Ramp(3.0, 1.0, 7), beta=gaf.Ramp(1, 2, 5))

    def go(model, opt, lr, schedule, steps):
        values = []
        for step in steps:
            values.append((opt.param_groups[0]["lr"], opt.param_groups[0]["gaf_params"]))
            backward(model, step)
            opt.step()
            lr.step()
            schedule.step()
        return values

    model = make_model()
    parts = build(model)
    go(model, *parts, range(4))
    torch.save([model.state_dict(), *(part.state_dict() for part in parts)], tmp_path / "c.pt")
    rest = go(model, *parts, range(4, 9))

    fresh = make_model(1)
    fresh_parts = build(fresh)
    saved = torch.load(tmp_path / "c.pt", weights_only=True)
    for part, state in zip((fresh, *fresh_parts), saved, strict=True):
        part.load_state_dict(state)
    assert go(fresh, *fresh_parts, range(4, 9)) == rest
    assert_same(snapshot(fresh_parts[0]), snapshot(parts[0]))


def test_resume_when_the_optimizer_is_loaded_before_the_schedule_is_made():
    opt = make("ours:sgd-momentum", make_model().parameters())
    schedule = gaf.ParamScheduler(opt, alpha=gaf.Ramp(3.0, 1.0, 4))
    schedule.step()
    saved = opt.state_dict(), schedule.state_dict()
    other = make("ours:sgd-momentum", make_model().parameters())
    other.load_state_dict(saved[0])
    again = gaf.ParamScheduler(other, alpha=gaf.Ramp(3.0, 1.0, 4))
    again.load_state_dict(saved[1])
    for _ in range(4):
        assert other.param_groups[0]["gaf_params"] == opt.param_groups[0]["gaf_params"]
        schedule.step()
        again.step()


def test_groups_of_their_own():
    model = make_model()
    opt = gaf.SGD(
        [
            {"params": [model[0].weight]},
            {"params": [model[0].bias], "activation": None},
            {"params": [model[2].weight], "activation": "tanh(0.4, 5)"},
        ],
        lr=0.1,
        activation=F,
    )
    schedule = gaf.ParamScheduler(opt, alpha=gaf.Ramp(0.5, 1.0, 2))
    assert schedule.get_last_params() == [(0.05, 20.0), None, (0.2, 5.0)]
    opt.add_param_group({"params": [model[2].bias]})  # joins with its constant values
    schedule.step()
    schedule.step()
    assert schedule.get_last_params() == [(0.1, 20.0), None, (0.4, 5.0), (0.1, 20.0)]


def test_a_function_with_parameters_of_its_own():
    from gaf.functions import registry

    @gaf.register
    class Saturating(gaf.Activation):
        ceiling: float = 1.0

        @staticmethod
        def formula(xp, g, ceiling):
            return g / (1 + xp.abs(g) / ceiling)

    try:
        opt = gaf.SGD(make_model().parameters(), lr=0.1, activation="saturating(2)")
        gaf.ParamScheduler(opt, ceiling=gaf.Ramp(0.5, 1.0, 2))
        assert opt.param_groups[0]["gaf_params"] == (1.0,)
        with pytest.raises(ValueError, match="saturating has no parameter 'alpha'; it has ceiling"):
            gaf.ParamScheduler(opt, alpha=gaf.Ramp(0.5, 1.0, 2))
    finally:
        del registry._REGISTRY["saturating"]


def test_wrong_use_is_refused():
    opt = gaf.SGD(make_model().parameters(), lr=0.1, activation=F)
    with pytest.raises(ValueError, match="arctan has no parameter 'gamma'; it has alpha, beta"):
        gaf.ParamScheduler(opt, gamma=gaf.Ramp(0.5, 1.0, 2))
    with pytest.raises(ValueError, match="name a parameter to schedule"):
        gaf.ParamScheduler(opt)
    with pytest.raises(ValueError, match=r"alpha must be positive and finite, got -0\.1"):
        gaf.ParamScheduler(opt, alpha=lambda step: -1.0)
    with pytest.raises(ValueError, match="beta must be positive and finite, got 0"):
        gaf.ParamScheduler(opt, beta=lambda step: 0.0)
    with pytest.raises(TypeError, match=r"alpha .*function of the step.* got float"):
        gaf.ParamScheduler(opt, alpha=0.5)
    assert gaf.activation_of(opt.param_groups[0]) == F  # nothing has been written
    schedule = gaf.ParamScheduler(opt, alpha=lambda step: 1.0 - step)
    with pytest.raises(ValueError, match="alpha must be positive and finite, got 0"):
        schedule.step()
    assert gaf.activation_of(opt.param_groups[0]) == F
    for plain in (
        gaf.SGD(make_model().parameters(), lr=0.1),
        torch.optim.SGD(make_model().parameters(), lr=0.1),
    ):
        with pytest.raises(ValueError, match="no activation to schedule"):
            gaf.ParamScheduler(plain, alpha=gaf.Ramp(0.5, 1.0, 2))
