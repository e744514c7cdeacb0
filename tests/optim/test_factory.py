"""gaf.create_optimizer: one string makes what the constructors make, and a wrong one says what to write."""

import re

import pytest
import torch

import gaf
from tests.optim.helpers import assert_same, make_model, snapshot, train


@pytest.mark.parametrize(
    ("name", "arguments", "by_hand"),
    [
        (
            "sgd+arctan(0.1,20)@momentum",
            {"momentum": 0.9},
            lambda p: gaf.SGD(p, lr=0.05, momentum=0.9, activation="arctan", placement="momentum"),
        ),
        (
            " SGD + tanh(alpha=2e-1, beta=1e+1) @ update ",
            {"momentum": 0.9},
            lambda p: gaf.SGD(
                p, lr=0.05, momentum=0.9, activation="tanh(0.2, 10)", placement="update"
            ),
        ),
        (
            "sgd+log",
            {},
            lambda p: gaf.SGD(p, lr=0.05, activation=gaf.Log(), placement="gradient"),
        ),
        ("adam", {}, lambda p: torch.optim.Adam(p, lr=0.05)),
        ("adamw+log(0.2,10)", {}, lambda p: gaf.AdamW(p, lr=0.05, activation=gaf.Log(0.2, 10))),
        (
            "RMSprop+arctan@gradient",
            {"alpha": 0.9},
            lambda p: gaf.activate(torch.optim.RMSprop(p, lr=0.05, alpha=0.9), gaf.Arctan()),
        ),
        ("nadam", {}, lambda p: torch.optim.NAdam(p, lr=0.05)),
    ],
)
def test_equals_the_constructor(name, arguments, by_hand):
    named, other = make_model(), make_model()
    opt = gaf.create_optimizer(name, named.parameters(), lr=0.05, **arguments)
    reference = by_hand(other.parameters())
    assert isinstance(opt, type(reference))
    train(named, opt, 3)
    train(other, reference, 3)
    assert_same(snapshot(opt), snapshot(reference))


def test_groups_keep_their_own():
    model = make_model()
    groups = gaf.exclude_bias_and_norm(model, activation=None)
    for name in ("sgd+arctan", "rmsprop+arctan"):
        opt = gaf.create_optimizer(name, [dict(group) for group in groups], lr=0.1)
        assert [gaf.activation_of(group) for group in opt.param_groups] == [gaf.Arctan(), None]


def test_a_group_alone_may_ask_for_a_function():
    ours, judge = make_model(), make_model()

    def groups(model):
        asking = {"params": model[0].parameters(), "activation": "tanh(0.2, 10)"}
        return [asking, {"params": model[2].parameters()}]

    opt = gaf.create_optimizer("rmsprop", groups(ours), lr=0.05)
    mine = groups(judge)
    mine[1]["activation"] = None
    reference = gaf.activate(torch.optim.RMSprop(mine, lr=0.05), gaf.Arctan())
    train(ours, opt, 3)
    train(judge, reference, 3)
    assert_same(snapshot(opt), snapshot(reference))
    opt.add_param_group({"params": [torch.zeros(2)]})
    held = [gaf.activation_of(group) for group in opt.param_groups]
    assert held == [gaf.Tanh(0.2, 10), None, None]


@pytest.mark.parametrize("name", ["rmsprop", "rmsprop+arctan"])
def test_a_group_cannot_ask_for_a_placement_that_is_not_there(name):
    group = {"params": [torch.zeros(2)], "placement": "momentum"}
    with pytest.raises(ValueError, match=r"placement 'momentum' .* take 'gradient' or 'update'"):
        gaf.create_optimizer(name, [group])
    with pytest.raises(ValueError, match="did you mean 'momentum'"):
        gaf.create_optimizer(name, [{**group, "placement": "momentun"}])
    opt = gaf.create_optimizer(name, [{**group, "placement": "gradient"}])
    assert "placement" not in opt.param_groups[0]


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("", {}, "cannot read '': write an optimizer, a function and a placement"),
        (7, {}, "cannot read 7"),
        ("sgd+arctan@momentum@update", {}, "cannot read"),
        ("sdg+arctan", {}, "unknown optimizer 'sdg'; did you mean 'sgd'"),
        ("optimizer", {}, "unknown optimizer 'optimizer'"),
        ("sgd+arcten", {}, "did you mean 'arctan'"),
        ("sgd+", {}, "cannot read ''"),
        ("sgd+arctan@momentun", {"momentum": 0.9}, "did you mean 'momentum'"),
        ("sgd+arctan@", {}, "unknown placement ''"),
        ("sgd@momentum", {}, "names a placement and no function"),
        ("adam+log@momentum", {"eps": 0}, "eps=0 needs a bounded function"),
        ("lion+arctan@gradient", {}, "Lion takes placement"),
        (
            "rmsprop+arctan@momentum",
            {},
            "placement 'momentum' is where the learning rate multiplies",
        ),
        ("sgd+__import__('os')", {}, "unknown gradient activation function '__import__'"),
    ],
)
def test_a_wrong_name_is_refused_in_a_sentence(name, arguments, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        gaf.create_optimizer(name, [torch.zeros(2, requires_grad=True)], **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["sgd+arctan", "rmsprop+arctan", "rmsprop"])
def test_what_the_name_sets_is_not_set_twice(name):
    with pytest.raises(TypeError, match="activation is set by the name"):
        gaf.create_optimizer(name, [torch.zeros(2)], activation=gaf.Log())


def test_a_model_is_not_parameters():
    with pytest.raises(TypeError, match=r"pass model\.parameters\(\)"):
        gaf.create_optimizer("sgd", make_model(), lr=0.1)


def test_a_class_of_another_package():
    w = torch.zeros(3, requires_grad=True)
    opt = gaf.create_optimizer("torch.optim.rmsprop:RMSprop + tanh(0.2, 10)@update", [w], lr=0.1)
    assert type(opt) is torch.optim.RMSprop
    assert gaf.activation_of(opt.param_groups[0]) == gaf.Tanh(0.2, 10)
    assert type(gaf.create_optimizer("torch.optim:Rprop", [w])) is torch.optim.Rprop
    with pytest.raises(gaf.GafError, match="pip install no_such_package"):
        gaf.create_optimizer("no_such_package:Rule", [w])
