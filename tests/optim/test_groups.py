"""Settings per parameter group, and the helper that leaves biases and norm layers out."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import gaf
from tests.optim.helpers import F, assert_same, backward, make_model, snapshot, train

CLASSES = [gaf.SGD, gaf.Adam, gaf.AdamW]


@pytest.mark.parametrize("cls", CLASSES)
def test_a_group_has_an_activation_of_its_own(cls):
    model = make_model()
    opt = cls(
        [
            {"params": [model[0].weight]},
            {"params": [model[0].bias], "activation": None},
            {"params": [model[2].weight], "activation": "tanh(0.2, 10)"},
            {"params": [model[2].bias], "activation": gaf.Log(0.3, 5)},
        ],
        lr=0.05,
        activation=F,
    )
    expected = [F, None, gaf.Tanh(0.2, 10), gaf.Log(0.3, 5)]
    assert [gaf.activation_of(group) for group in opt.param_groups] == expected
    placements = [group["gaf_placement"] for group in opt.param_groups]
    assert placements == ["gradient", None, "gradient", "gradient"]
    assert not any("activation" in group or "placement" in group for group in opt.param_groups)

    judge = make_model()
    params = [judge[0].weight, judge[0].bias, judge[2].weight, judge[2].bias]
    apart = [cls([p], lr=0.05, activation=f) for p, f in zip(params, expected, strict=True)]
    for step in range(3):
        backward(judge, step)
        for o in apart:
            o.step()
        train(model, opt, range(step, step + 1))
    assert_same(snapshot(opt)["params"], [p for o in apart for p in snapshot(o)["params"]])
    assert_same(snapshot(opt)["state"], [s for o in apart for s in snapshot(o)["state"]])


def test_a_group_has_a_placement_of_its_own():
    model, judge = make_model(), make_model()
    opt = gaf.SGD(
        [
            {"params": [model[0].weight], "placement": "gradient"},
            {"params": [model[0].bias], "placement": "update"},
            {"params": [model[2].weight]},
            {"params": [model[2].bias], "momentum": 0.0, "placement": None},
        ],
        lr=0.1,
        momentum=0.9,
        activation=F,
    )
    placements = [group["gaf_placement"] for group in opt.param_groups]
    assert placements == ["gradient", "update", "momentum", "gradient"]
    params = [judge[0].weight, judge[0].bias, judge[2].weight, judge[2].bias]
    apart = [
        gaf.SGD([p], lr=0.1, momentum=0.0 if i == 3 else 0.9, activation=F, placement=where)
        for i, (p, where) in enumerate(zip(params, placements, strict=True))
    ]
    for step in range(3):
        backward(judge, step)
        for o in apart:
            o.step()
        train(model, opt, range(step, step + 1))
    assert_same(snapshot(opt)["params"], [p for o in apart for p in snapshot(o)["params"]])
    assert_same(snapshot(opt)["state"], [s for o in apart for s in snapshot(o)["state"]])


@pytest.mark.parametrize("cls", CLASSES)
def test_only_groups_may_have_one(cls):
    model = make_model()
    opt = cls([{"params": model[0].parameters()}, {"params": [model[2].weight], "activation": F}])
    assert [gaf.activation_of(group) for group in opt.param_groups] == [None, F]


@pytest.mark.parametrize("cls", CLASSES)
def test_the_callers_dicts_are_left_alone_and_serve_twice(cls):
    model = make_model()
    groups = [
        {"params": list(model[0].parameters()), "activation": None},
        {"params": list(model[2].parameters()), "activation": "tanh(0.2, 10)", "lr": 0.02},
    ]
    before = [dict(group) for group in groups]
    first = cls(groups, activation=F)
    train(model, first, 1)
    first.add_param_group({"params": [torch.zeros(2, requires_grad=True)]})
    assert [list(group) for group in groups] == [list(group) for group in before]
    for group, was in zip(groups, before, strict=True):
        assert group["params"] is was["params"]
        assert {k: v for k, v in group.items() if k != "params"} == {
            k: v for k, v in was.items() if k != "params"
        }
    second = cls(groups, activation=F)
    assert [gaf.activation_of(group) for group in second.param_groups] == [None, gaf.Tanh(0.2, 10)]
    assert second.param_groups[1]["lr"] == 0.02
    assert second.param_groups[0] is not groups[0]


def test_groups_of_one_optimizer_serve_another():
    """What torch users do: SecondOptimizer(first.param_groups)."""
    model = make_model()
    first = gaf.SGD(
        [
            {"params": model[0].parameters(), "activation": None},
            {"params": model[2].parameters(), "placement": "gradient"},
        ],
        lr=0.1,
        momentum=0.9,
        activation="log",
    )
    second = gaf.SGD(first.param_groups, momentum=0.9, activation=F)
    assert [gaf.activation_of(g) for g in second.param_groups] == [None, gaf.Log()]
    assert [g["gaf_placement"] for g in second.param_groups] == [None, "gradient"]


@pytest.mark.parametrize("cls", CLASSES)
def test_a_group_added_later(cls):
    model, judge = make_model(), make_model()
    opt = cls(model[0].parameters(), lr=0.05, activation=F)
    train(model, opt, 1)
    given = {"params": list(model[2].parameters()), "lr": 0.02}
    opt.add_param_group(given)
    assert list(given) == ["params", "lr"]
    assert gaf.activation_of(opt.param_groups[1]) == F
    apart = [cls(judge[0].parameters(), lr=0.05, activation=F)]
    train(judge, apart[0], 1)
    apart.append(cls(judge[2].parameters(), lr=0.02, activation=F))
    for step in range(1, 3):
        train(model, opt, range(step, step + 1))
        backward(judge, step)
        for o in apart:
            o.step()
    assert_same(snapshot(opt)["params"], [p for o in apart for p in snapshot(o)["params"]])
    extra = torch.zeros(2, requires_grad=True)
    opt.add_param_group({"params": [extra], "activation": None})
    assert gaf.activation_of(opt.param_groups[2]) is None


def test_a_bad_group_added_later_is_refused_whole():
    model = make_model()
    opt = gaf.SGD(model[0].parameters(), lr=0.1, activation=F)
    extra = {"params": list(model[2].parameters())}
    with pytest.raises(ValueError, match="did you mean 'update'"):
        opt.add_param_group({**extra, "placement": "updat"})
    with pytest.raises(ValueError, match="did you mean 'tanh'"):
        opt.add_param_group({**extra, "activation": "tanhh"})
    with pytest.raises(RuntimeError, match="fused"):
        opt.add_param_group({"params": torch.zeros(2, dtype=torch.cfloat), "fused": True})
    with pytest.raises(ValueError, match="appear in more than one parameter group"):
        opt.add_param_group({"params": list(model[0].parameters())})
    with pytest.raises(TypeError, match="must be a dict"):
        opt.add_param_group(list(model[2].parameters()))
    assert len(opt.param_groups) == 1
    opt.add_param_group({**extra, "placement": "momentum", "momentum": 0.5})
    assert opt.param_groups[1]["gaf_placement"] == "momentum"


@pytest.mark.parametrize("cls", CLASSES)
def test_named_parameters(cls):
    model, judge = make_model(), make_model()
    opt = cls(model.named_parameters(), lr=0.05, activation=F)
    other = cls(judge.parameters(), lr=0.05, activation=F)
    assert opt.param_groups[0]["param_names"] == [name for name, _ in model.named_parameters()]
    train(model, opt, 2)
    train(judge, other, 2)
    assert_same(snapshot(opt), snapshot(other))
    grouped = cls(
        [
            {"params": list(model[0].named_parameters("0")), "activation": None},
            {"params": list(model[2].named_parameters("2"))},
        ],
        activation=F,
    )
    assert grouped.param_groups[1]["param_names"] == ["2.weight", "2.bias"]
    assert [gaf.activation_of(g) for g in grouped.param_groups] == [None, F]


def test_the_rest_of_torch_reads_the_groups():
    opt = gaf.SGD(make_model().parameters(), lr=0.1, activation=F)
    assert "gaf_function: arctan" in repr(opt)
    assert copy.deepcopy(opt.state_dict())["param_groups"][0]["gaf_params"] == (0.1, 20.0)
    with pytest.raises(ValueError, match="empty parameter list"):
        gaf.SGD([], lr=0.1, activation=F)


class RMSNorm(nn.Module):
    """A norm layer that is not torch's, as large language models bring their own."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.conv = nn.Conv2d(3, 4, 3)
        self.conv_free = nn.Conv2d(4, 4, 3, bias=False)
        self.batch = nn.BatchNorm2d(4)
        self.group = nn.GroupNorm(2, 4)
        self.instance = nn.InstanceNorm2d(4, affine=True)
        self.layer = nn.LayerNorm((4, 6))  # its weight has two dimensions
        self.rms = nn.RMSNorm(6)
        self.own = RMSNorm(6)
        self.attention = nn.MultiheadAttention(6, 2)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.head = nn.Linear(6, 11)
        self.head.weight = self.embed.weight  # tied
        self.gain = nn.Parameter(torch.tensor(1.0))
        self.offset_bias = nn.Parameter(torch.zeros(2, 3))


def test_exclude_bias_and_norm():
    model = Everything()
    names = {id(p): name for name, p in model.named_parameters()}
    weights, others = gaf.exclude_bias_and_norm(model, activation=None, weight_decay=0.0)
    assert [names[id(p)] for p in weights["params"]] == [
        "embed.weight",
        "conv.weight",
        "conv_free.weight",
        "attention.in_proj_weight",
        "attention.out_proj.weight",
    ]
    assert {names[id(p)] for p in others["params"]} == {
        "conv.bias",
        *(
            f"{norm}.{kind}"
            for norm in ("batch", "group", "instance")
            for kind in ("weight", "bias")
        ),
        "layer.weight",
        "layer.bias",
        "rms.weight",
        "own.weight",
        "attention.in_proj_bias",
        "attention.out_proj.bias",
        "head.bias",
        "gain",
        "offset_bias",
    }
    ids = [id(p) for group in (weights, others) for p in group["params"]]
    assert len(ids) == len(set(ids)) == sum(p.requires_grad for p in model.parameters())
    assert list(weights) == ["params"]
    assert {k: v for k, v in others.items() if k != "params"} == {
        "activation": None,
        "weight_decay": 0.0,
    }


def test_exclude_bias_and_norm_in_every_optimizer():
    model = Everything()
    groups = gaf.exclude_bias_and_norm(model, activation=None, weight_decay=0.0)
    for opt in (
        gaf.SGD(groups, lr=0.1, momentum=0.9, weight_decay=5e-4, activation=F),
        gaf.AdamW(groups, activation=F),
        gaf.activate(torch.optim.RMSprop(groups, weight_decay=5e-4), F),  # writes into the dicts
    ):
        assert [gaf.activation_of(group) for group in opt.param_groups] == [F, None]
        assert opt.param_groups[0]["weight_decay"] > opt.param_groups[1]["weight_decay"] == 0


def test_exclude_bias_and_norm_leaves_no_empty_group():
    assert [
        list(g) for g in gaf.exclude_bias_and_norm(nn.Linear(2, 2, bias=False), activation=None)
    ] == [["params"]]
    (group,) = gaf.exclude_bias_and_norm(nn.LayerNorm(3), activation=None)
    assert group["activation"] is None
    assert len(group["params"]) == 2
    frozen = nn.Linear(2, 2).requires_grad_(False)
    assert gaf.exclude_bias_and_norm(frozen, activation=None) == []


def test_an_activation_set_later_is_not_ignored():
    opt = gaf.SGD(make_model().parameters(), lr=0.1, activation=F)
    opt.param_groups[0]["activation"] = None
    with pytest.raises(ValueError, match="is read when the group is added"):
        opt.step()


def test_excluding_needs_to_know_what():
    with pytest.raises(TypeError, match="such as activation=None"):
        gaf.exclude_bias_and_norm(make_model())
    with pytest.raises(TypeError, match="takes the model, got generator"):
        gaf.exclude_bias_and_norm(make_model().parameters(), activation=None)


def test_a_group_by_its_keys_has_the_usual_placement():
    opt = gaf.SGD([torch.zeros(2)], lr=0.1, momentum=0.9)
    opt.add_param_group(
        {"params": [torch.zeros(3)], "gaf_function": "arctan", "gaf_params": (0.1, 20.0)}
    )
    assert opt.param_groups[1]["gaf_placement"] == "momentum"
