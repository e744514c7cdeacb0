"""Bad input gets one clear sentence."""

from __future__ import annotations

import math
import re

import pytest
import torch

import gaf
from tests.optim.helpers import BUILT_IN, F, assert_same, make_model, snapshot

CLASSES = [gaf.SGD, gaf.Adam, gaf.AdamW]


def params():
    return make_model().parameters()


# Every door an activation can come in by.
DOORS = {
    "SGD": lambda f: gaf.SGD(params(), lr=0.1, activation=f),
    "Adam": lambda f: gaf.Adam(params(), activation=f),
    "AdamW": lambda f: gaf.AdamW(params(), activation=f),
    "group": lambda f: gaf.SGD([{"params": params(), "activation": f}], lr=0.1),
    "activate": lambda f: gaf.activate(torch.optim.RMSprop(params()), f),
    "activated group": lambda f: gaf.activate(
        torch.optim.RMSprop([{"params": params(), "activation": f}]), F
    ),
    "activate_grad_": lambda f: gaf.activate_grad_(params(), f),
}


def message_of(error: pytest.ExceptionInfo) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert 20 < len(text) < 250
    return text


@pytest.mark.parametrize("cls", [gaf.Arctan, gaf.Tanh, gaf.Log])
@pytest.mark.parametrize("bad", [0.0, -0.1, math.inf, -math.inf, math.nan])
def test_alpha_and_beta_must_be_positive_and_finite(cls, bad):
    for name, args in (("alpha", (bad, 20.0)), ("beta", (0.1, bad))):
        with pytest.raises(ValueError, match="positive and finite") as error:
            cls(*args)
        text = message_of(error)
        assert f"{cls.__name__}: {name} must be positive and finite, got {bad}" == text


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("text", ["arctan(0, 20)", "tanh(0.1, -1)", "log(alpha=1e400)"])
def test_bad_values_in_a_name(door, text):
    with pytest.raises(ValueError, match="must be positive and finite") as error:
        DOORS[door](text)
    message_of(error)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("text", "near"),
    [("arctn(0.1, 20)", "arctan"), ("tahn", "tanh"), ("LOGG(1, 2)", "log"), ("atan", "arctan")],
)
def test_an_unknown_function_names_the_nearest(door, text, near):
    with pytest.raises(ValueError, match="unknown") as error:
        DOORS[door](text)
    assert f"did you mean '{near}'?" in message_of(error)


@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_function_near_none_gets_the_list(door):
    with pytest.raises(ValueError, match=r"unknown .*'zzz'; known are .*arctan") as error:
        DOORS[door]("zzz")
    assert all(name in str(error.value) for name in BUILT_IN)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("text", ["arctan(0.1, 20", "", "1 + 1", "arctan(x)", "arctan(*[1])"])
def test_what_cannot_be_read_shows_how_to_write_it(door, text):
    with pytest.raises(ValueError, match=r"cannot read") as error:
        DOORS[door](text)
    assert "'arctan(0.1, 20)'" in message_of(error)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("text", ["arctan(1, 2, 3)", "arctan(gamma=1)", "arctan(1, alpha=1)"])
def test_wrong_parameters_in_a_name(door, text):
    with pytest.raises(ValueError, match=r"cannot read .* takes \(alpha, beta\)"):
        DOORS[door](text)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", [0.1, (0.1, 20), torch.atan, ["arctan"], True])
def test_an_activation_of_a_wrong_type(door, value):
    with pytest.raises(TypeError, match="activation must be a function such as") as error:
        DOORS[door](value)
    assert f"got {type(value).__name__}" in message_of(error)


@pytest.mark.parametrize("door", DOORS)
def test_a_class_instead_of_an_instance(door):
    with pytest.raises(TypeError, match=r"pass an instance such as Tanh\(\.\.\.\), not the class"):
        DOORS[door](gaf.Tanh)


@pytest.mark.parametrize("door", ["activate", "activate_grad_"])
def test_none_where_a_function_is_needed(door):
    with pytest.raises(TypeError, match=rf"{door} needs an activation such as .* got None"):
        DOORS[door](None)


@pytest.mark.parametrize("activation", [F, None])
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    ("placement", "near"),
    [("momentun", "momentum"), ("gradients", "gradient"), ("udpate", "update")],
)
def test_an_unknown_placement_names_the_nearest(cls, placement, near, activation):
    for make in (
        lambda: cls(params(), activation=activation, placement=placement),
        lambda: cls([{"params": params(), "placement": placement}], activation=activation),
    ):
        with pytest.raises(ValueError, match="unknown placement") as error:
            make()
        text = message_of(error)
        assert repr(placement) in text
        assert f"did you mean {near!r}?" in text


def test_an_unknown_placement_near_none_gets_the_list():
    with pytest.raises(ValueError, match="it is one of gradient, momentum, update"):
        gaf.SGD(params(), lr=0.1, activation=F, placement="zzz")
    with pytest.raises(ValueError, match="it is one of gradient, momentum, update"):
        gaf.SGD(params(), lr=0.1, activation=F, placement=3)


def test_the_usual_placement_is_behind_a_velocity():
    for momentum, placement in ((0, "gradient"), (0.9, "momentum")):  # what it is when unset
        opt = gaf.SGD(params(), lr=0.1, momentum=momentum, activation=F)
        assert opt.param_groups[0]["gaf_placement"] == placement


@pytest.mark.parametrize("cls", [gaf.Adam, gaf.AdamW])
@pytest.mark.parametrize("placement", ["momentum", "update"])
def test_without_eps_f_must_be_bounded(cls, placement):
    """A weight whose second moment has vanished would go to infinity with f."""
    with pytest.raises(
        ValueError, match=r"eps=0 needs a bounded function .* log has none"
    ) as error:
        cls(params(), activation="log", placement=placement, eps=0)
    message_of(error)
    cls(params(), activation="log", placement=placement)
    w = torch.ones(3)
    opt = cls([w], lr=0.1, weight_decay=0, activation="arctan(1, 1)", placement=placement, eps=0)
    w.grad = torch.tensor([0.0, 1e-30, -1e-30])  # whose squares are 0 in float32
    opt.step()
    quarter = 0.1 * math.pi / 2 if placement == "momentum" else math.pi / 2
    assert w.tolist() == pytest.approx([1.0, 1 - quarter, 1 + quarter])


@pytest.mark.parametrize("cls", CLASSES)
def test_foreach_and_fused_together_is_torchs_own_message(cls):
    theirs = {gaf.SGD: torch.optim.SGD, gaf.Adam: torch.optim.Adam, gaf.AdamW: torch.optim.AdamW}
    with pytest.raises(RuntimeError) as torchs:
        theirs[cls](params(), foreach=True, fused=True)
    for activation in (None, F):
        with pytest.raises(RuntimeError, match="foreach") as ours:
            cls(params(), foreach=True, fused=True, activation=activation)
        assert str(ours.value) == str(torchs.value)


@pytest.mark.parametrize("cls", CLASSES)
def test_fused_with_an_activation(cls):
    wrong = [torch.zeros(2, dtype=torch.complex64)]
    with pytest.raises(
        RuntimeError, match=r"`fused=True` cannot be honoured: .*; leave `fused` unset"
    ):
        cls(wrong, fused=True, activation=F)
    with pytest.raises(RuntimeError, match="`fused=True` cannot be honoured"):
        cls([{"params": wrong, "activation": F}], fused=True)
    cls(params(), fused=True, activation=F)
    cls([{"params": params(), "activation": None}], fused=True, activation=F)
    cls([{"params": params(), "fused": False}], fused=True, activation=F)


@pytest.mark.parametrize("activation", [F, None])
@pytest.mark.parametrize(
    ("cls", "bad"),
    [
        (gaf.SGD, {"lr": -1.0}),
        (gaf.SGD, {"momentum": -1.0}),
        (gaf.SGD, {"weight_decay": -1.0}),
        (gaf.SGD, {"nesterov": True}),
        (gaf.SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        (gaf.SGD, {"lr": torch.ones(2)}),
        (gaf.Adam, {"lr": -1.0}),
        (gaf.Adam, {"eps": -1.0}),
        (gaf.Adam, {"betas": (1.0, 0.9)}),
        (gaf.Adam, {"lr": torch.tensor(0.1), "foreach": True}),
        (gaf.AdamW, {"betas": (0.9, -0.1)}),
        (gaf.AdamW, {"weight_decay": -1.0}),
    ],
)
def test_torchs_own_checks_come_with_torchs_own_words(cls, bad, activation):
    with pytest.raises(ValueError) as torchs:  # noqa: PT011
        getattr(torch.optim, cls.__name__)(params(), **bad)
    with pytest.raises(ValueError, match=re.escape(str(torchs.value))):
        cls(params(), activation=activation, **bad)


@pytest.mark.parametrize("cls", CLASSES)
def test_new_arguments_are_keyword_only(cls):
    with pytest.raises(TypeError, match="positional"):
        cls(params(), 0.1, *((0.9, 0, 0, False, F) if cls is gaf.SGD else ((0.9, 0.9), 1, 0, 0, F)))


# What a user may write into a group between two steps, and what the next one says.
WRONG = [
    ({"gaf_params": (math.nan, 20.0)}, "Arctan: alpha must be positive and finite, got nan"),
    ({"gaf_params": (0.1, -20.0)}, "Arctan: beta must be positive and finite, got -20"),
    ({"gaf_params": (0.1,)}, r"arctan takes \(alpha, beta\), got 1 values"),
    ({"gaf_params": (0.1, 20.0, 1.0)}, r"arctan takes \(alpha, beta\), got 3 values"),
    ({"gaf_params": (0.1, "20")}, "Arctan: beta must be a number, got str"),
    ({"gaf_params": (torch.ones(1), 20.0)}, "Arctan: alpha must be a number, got Tensor"),
    ({"gaf_params": None}, "gaf_params is a tuple of numbers, got NoneType"),
    ({"gaf_params": 0.1}, "gaf_params is a tuple of numbers, got float"),
    ({"gaf_function": "arctn"}, "unknown .*'arctn'; did you mean 'arctan'"),
    ({"gaf_function": F}, "gaf_function is a name or None, got Arctan"),
    ({"gaf_function": "auto"}, r"auto takes \(step, quantile, decay, lr, function\), got 2 values"),
    ({"gaf_function": "auto", "gaf_params": (0.1, 0.5, 1.5, None)}, "Auto: decay must be"),
    ({"gaf_placement": "gradients"}, "unknown placement 'gradients'; did you mean 'gradient'"),
    ({"gaf_placement": 3}, "unknown placement 3; it is one of gradient, momentum, update"),
]
SETTINGS = {
    "SGD": lambda p, f: gaf.SGD(p, lr=0.1, momentum=0.9, activation=f),
    "SGD foreach": lambda p, f: gaf.SGD(p, lr=0.1, activation=f, foreach=True),
    "SGD single": lambda p, f: gaf.SGD(p, lr=0.1, activation=f, foreach=False),
    "Adam": lambda p, f: gaf.Adam(p, activation=f),
    "AdamW": lambda p, f: gaf.AdamW(p, activation=f),
    "activate": lambda p, f: gaf.activate(torch.optim.RMSprop(p), f),
}


@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize(("wrong", "sentence"), WRONG, ids=lambda value: str(value)[:40])
def test_settings_made_by_hand_are_checked_when_read(how, wrong, sentence):
    """A step that refuses them has changed nothing; put right, it goes on."""
    v, w = torch.ones(3), torch.ones(3)
    opt = SETTINGS[how]([{"params": [v]}, {"params": [w]}], F)
    v.grad, w.grad = torch.ones(3), torch.ones(3)
    opt.step()
    v.grad, w.grad = torch.ones(3), torch.ones(3)
    right, before = dict(opt.param_groups[1]), snapshot(opt)
    for _ in range(2):  # a refusal is not remembered as read
        opt.param_groups[1].update(wrong)
        with pytest.raises(gaf.GafError, match=sentence) as error:
            opt.step()
        assert "\n" not in str(error.value)
        assert_same(snapshot(opt), before)
    opt.param_groups[1].update(right)
    opt.step()
    assert all((p < old).all() for p, old in zip((v, w), before["params"], strict=True))


@pytest.mark.parametrize(("wrong", "sentence"), WRONG[:10], ids=lambda value: str(value)[:40])
def test_activation_of_checks_too(wrong, sentence):
    group = {"gaf_function": "arctan", "gaf_params": (0.1, 20.0), "gaf_placement": "gradient"}
    with pytest.raises(gaf.GafError, match=sentence):
        gaf.activation_of(group | wrong)


def test_a_placement_that_the_optimizer_does_not_take():
    w = torch.ones(3)
    opt = SETTINGS["activate"]([w], F)
    opt.param_groups[0]["gaf_placement"] = "momentum"
    w.grad = torch.ones(3)
    with pytest.raises(
        gaf.GafError, match="set to 'momentum', and the optimizer takes 'gradient' or 'update' only"
    ):
        opt.step()


@pytest.mark.parametrize("how", SETTINGS)
def test_a_function_set_by_hand_acts_where_the_constructors_does(how):
    def trained(opt, w):
        for step in range(3):
            w.grad = torch.full((3,), 0.1 + step)
            opt.step()
        return snapshot(opt)

    w, twin = torch.ones(3), torch.ones(3)
    if how == "activate":
        opt = gaf.activate(torch.optim.RMSprop([{"params": [w], "activation": None}]), "tanh")
    else:
        opt = SETTINGS[how]([w], None)
    opt.param_groups[0].update(gaf_function=F.name, gaf_params=F.params)
    made = SETTINGS[how]([twin], F)
    assert_same(trained(opt, w), trained(made, twin))
    assert opt.param_groups[0]["gaf_placement"] == made.param_groups[0]["gaf_placement"]


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_a_function_taken_out_by_hand_leaves_torchs_step(placement):
    w, twin = torch.ones(3), torch.ones(3)
    hyper = {"lr": 0.1, "momentum": 0.9}
    opt = gaf.SGD([w], **hyper, activation=F, placement=placement)
    opt.param_groups[0]["gaf_function"] = None
    theirs = torch.optim.SGD([twin], **hyper)
    for step in range(3):
        w.grad, twin.grad = torch.full((3,), 0.1 + step), torch.full((3,), 0.1 + step)
        opt.step()
        theirs.step()
    assert_same(snapshot(opt), snapshot(theirs))
