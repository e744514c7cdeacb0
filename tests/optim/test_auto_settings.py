"""How gaf.Auto is named, set, scheduled and watched, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gaf
from tests.optim.helpers import assert_same, make, make_model, snapshot, train


def test_the_rate_is_the_one_before_a_schedule():
    w = nn.Parameter(torch.ones(2, 2))
    opt = torch.optim.SGD([w], lr=0.1)
    warmup = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: step / 100)
    assert opt.param_groups[0]["lr"] == 0
    gaf.activate(opt, gaf.Auto())
    assert gaf.activation_of(opt.param_groups[0]) == gaf.Auto(lr=0.1)
    w.grad = torch.ones(2, 2)
    opt.step()
    warmup.step()
    second = torch.optim.SGD([w], lr=0.3)
    second.load_state_dict(opt.state_dict())
    gaf.activate(second, gaf.Auto(step=0.05))
    assert gaf.activation_of(second.param_groups[0]) == gaf.Auto(step=0.05, lr=0.1)


def test_the_rate_of_a_checkpoint_stays():
    """There is no scheduler that would keep it."""
    w = nn.Parameter(torch.ones(2, 2))
    first = gaf.activate(torch.optim.SGD([w], lr=0.1), gaf.Auto())
    first.param_groups[0]["lr"] = 0.001
    second = torch.optim.SGD([w], lr=0.1)
    second.load_state_dict(first.state_dict())
    gaf.activate(second, gaf.Auto())
    assert gaf.activation_of(second.param_groups[0]) == gaf.Auto(lr=0.1)


def test_a_group_added_later_has_its_own_rate():
    opt = gaf.activate(torch.optim.SGD([torch.ones(2)], lr=0.1), gaf.Auto())
    opt.add_param_group({"params": [torch.ones(2)], "lr": 0.5})
    opt.add_param_group({"params": [torch.ones(2)], "lr": 0.7, "activation": "auto(0.3)"})
    assert [gaf.activation_of(group) for group in opt.param_groups] == [
        gaf.Auto(lr=0.1),
        gaf.Auto(lr=0.5),
        gaf.Auto(0.3, lr=0.7),
    ]


@pytest.mark.parametrize("activation", [None, "arctan"])
@pytest.mark.parametrize("kind", [gaf.SGD, gaf.Adam, gaf.AdamW])
def test_set_by_hand_it_takes_the_rate_of_the_group(kind, activation):
    w = torch.ones(2, 2)
    opt = kind([w], lr=0.1, activation=activation)
    opt.param_groups[0].update(gaf_function="auto", gaf_params=gaf.Auto().params)
    w.grad = torch.ones(2, 2)
    opt.step()
    assert gaf.activation_of(opt.param_groups[0]) == gaf.Auto(lr=0.1)
    place = None if activation is None else "gradient"  # which the arctan had, and stays
    twin = kind([torch.ones(2, 2)], lr=0.1, activation=gaf.Auto(), placement=place)
    twin.param_groups[0]["params"][0].grad = torch.ones(2, 2)
    twin.step()
    assert_same(snapshot(opt), snapshot(twin))


def test_groups_schedules_and_names():
    w, v = torch.ones(3), torch.ones(3)
    opt = gaf.SGD(
        [{"params": [w], "lr": 0.5}, {"params": [v], "activation": "arctan"}],
        lr=0.1,
        momentum=0.9,
        activation="auto(step=0.2)",
    )
    assert gaf.activation_of(opt.param_groups[0]) == gaf.Auto(0.2, lr=0.5)
    assert [group["gaf_placement"] for group in opt.param_groups] == ["gradient", "momentum"]
    first = gaf.SGD([w], lr=0.5, activation=gaf.Auto())
    gaf.ParamScheduler(first, step=gaf.Ramp(2.0, 1.0, steps=3))
    assert first.param_groups[0]["gaf_params"][0] == pytest.approx(2 * gaf.Auto().step)


def test_the_monitor_tells_of_it():
    model = make_model()
    opt = make("ours:sgd-momentum", model.parameters(), "auto")
    monitor = gaf.Monitor(opt)
    train(model, opt, 2)
    assert monitor.latest[0]["slope"] is None
    assert 0 < monitor.latest[0]["linear"] < 1
    assert "Auto(" in str(monitor)


@pytest.mark.parametrize(
    ("function", "linear", "saturated"), [("line", 1, 0), ("clip", 0.5, 0.5), ("sign", 0, 1)]
)
def test_the_monitor_knows_each_curve(function, linear, saturated):
    w = torch.ones(2, 2)
    opt = gaf.SGD([w], lr=0.1, activation=gaf.Auto(function=function))
    monitor = gaf.Monitor(opt)
    w.grad = torch.tensor([[1.0, 1.5], [7.0, -8.0]])  # the median is 1.5
    opt.step()
    record = monitor.latest[0]
    assert (record["linear"], record["saturated"]) == (linear, saturated)
    assert (
        record["function"]
        == f"Auto(step=0.03, quantile=0.5, decay=0.99, lr=0.1, function='{function}')"
    )


def test_a_function_by_name():
    f = gaf.Auto(0.1, function="line")
    assert gaf.parse("auto(0.1, function=line)") == gaf.parse("auto(0.1, function='line')") == f
    assert gaf.parse(repr(gaf.Auto(0.1, lr=0.3, function="sign"))) == gaf.Auto(
        0.1, lr=0.3, function="sign"
    )
    opt = gaf.create_optimizer("sgd + auto(function=clip)", [torch.ones(2)], lr=0.1)
    assert gaf.activation_of(opt.param_groups[0]) == gaf.Auto(lr=0.1, function="clip")
    with pytest.raises(gaf.GafError, match="function of auto is a name"):
        gaf.ParamScheduler(opt, function=gaf.Ramp(2.0, 1.0, steps=3))
    with pytest.raises(TypeError, match="Auto: function must be a name, got int"):
        gaf.Auto(function=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"step": 0}, "step must be positive"),
        ({"quantile": 1.0}, "quantile must lie between 0 and 1"),
        ({"decay": 1.0}, "decay must be at least 0 and below 1"),
        ({"lr": -1}, "lr must be positive"),
        ({"function": "cube"}, "Auto has no function 'cube'; there are arctan, clip, line, sign"),
        ({"function": "lin"}, "Auto has no function 'lin'; did you mean 'line'"),
    ],
)
def test_wrong_values(wrong, says):
    with pytest.raises(ValueError, match=says):
        gaf.Auto(**wrong)


@pytest.mark.parametrize(
    "text",
    [
        "auto(",
        "auto(step=x)",
        "auto(**a)",
        "auto()()",
        "auto(speed=3)",
        "auto(1, step=2)",
        "auto('1')",
    ],
)
def test_a_text_that_cannot_be_read_is_refused_in_a_sentence(text):
    with pytest.raises(ValueError, match=r"^cannot read") as caught:
        gaf.parse(text)
    assert "\n" not in str(caught.value)


def test_a_number_beyond_the_floats_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="step must be finite, got an integer beyond 1e308"):
        gaf.parse(f"auto({10**400})")


def test_what_it_cannot_do_is_said():
    w = torch.ones(2)
    w.grad = torch.ones(2)
    with pytest.raises(TypeError, match=r"gaf\.activate\(optimizer, gaf\.Auto\(\)\)"):
        gaf.activate_grad_([w], "auto")
    with pytest.raises(ValueError, match="cannot read"):
        gaf.SGD([w], lr=0.1, activation="auto(speed=3)")
    with pytest.raises(ValueError, match="measures steps by the learning rate"):
        gaf.SGD([w], lr=0.0, activation=gaf.Auto())

    class Rateless(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

    with pytest.raises(ValueError, match=r"the optimizer has none: pass gaf\.Auto\(lr="):
        gaf.activate(Rateless([w]), gaf.Auto())
    for kind in (gaf.SGD, gaf.Adam, gaf.AdamW):
        with pytest.raises(ValueError, match="autograd does not follow"):
            kind([w], lr=0.1, activation=gaf.Auto(), differentiable=True)
