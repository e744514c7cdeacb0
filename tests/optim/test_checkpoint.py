"""state_dict: ours into ours, torch's into ours, ours into torch's, through real files."""

from __future__ import annotations

import copy

import pytest
import torch

import gaf
from tests.optim.helpers import (
    BUILT_IN,
    EVERY,
    FOREIGN,
    OTHERS,
    OURS,
    F,
    assert_same,
    loss_of,
    make,
    make_model,
    snapshot,
    train,
)
from tests.pairs import one_each


def through_a_file(value, folder):
    torch.save(value, folder / "checkpoint.pt")
    return torch.load(folder / "checkpoint.pt", weights_only=True)


@pytest.mark.parametrize("name", EVERY)
def test_a_fresh_optimizer_goes_on_to_the_bit(name, tmp_path):
    model, fresh = make_model(), make_model(1)
    opt = make(name, model.parameters())
    train(model, opt, 3)
    saved = through_a_file({"model": model.state_dict(), "opt": opt.state_dict()}, tmp_path)
    fresh.load_state_dict(saved["model"])
    other = make(name, fresh.parameters())
    given = copy.deepcopy(saved["opt"])
    other.load_state_dict(saved["opt"])
    assert_same(saved["opt"], given)  # what the caller passed is not modified
    assert gaf.activation_of(other.param_groups[0]) == F
    train(model, opt, range(3, 6))
    train(fresh, other, range(3, 6))
    assert_same(snapshot(other), snapshot(opt))
    assert_same(other.state_dict(), opt.state_dict())


RULES = ["ours:sgd-update", "ours:adam", "activated:rmsprop"]


@one_each(function=OTHERS, name=RULES)
def test_the_checkpoint_says_which_other_function(name, function, tmp_path):
    check_checkpoint(name, gaf.parse(function), tmp_path)


@pytest.mark.parametrize("function", BUILT_IN)
@pytest.mark.parametrize("name", RULES)
def test_the_checkpoint_says_which_function(name, function, tmp_path):
    check_checkpoint(name, gaf.parse(f"{function}(0.3, 7)"), tmp_path)


def check_checkpoint(name, f, tmp_path):
    opt = make(name, make_model().parameters(), f)
    other = make(name, make_model().parameters(), gaf.Arctan(0.5, 5))
    other.load_state_dict(through_a_file(opt.state_dict(), tmp_path))
    assert gaf.activation_of(other.param_groups[0]) == f


def test_settings_per_group_come_back(tmp_path):
    def groups(model, **first):
        return [
            {"params": model[0].weight, **first},
            {"params": model[0].bias},
            {"params": model[2].parameters()},
        ]

    model, fresh = make_model(), make_model(1)
    opt = gaf.SGD(groups(model), lr=0.1, momentum=0.9, activation=F)
    opt.param_groups[1].update(gaf_params=(0.2, 10.0), lr=0.03)
    train(model, opt, 2)
    saved = through_a_file({"model": model.state_dict(), "opt": opt.state_dict()}, tmp_path)
    fresh.load_state_dict(saved["model"])
    other = gaf.SGD(groups(fresh), lr=0.5, momentum=0.9, activation="tanh")
    other.load_state_dict(saved["opt"])
    assert [gaf.activation_of(group) for group in other.param_groups] == [
        F,
        gaf.Arctan(0.2, 10),
        F,
    ]
    train(model, opt, range(2, 4))
    train(fresh, other, range(2, 4))
    assert_same(snapshot(other), snapshot(opt))


TORCH = {
    "sgd-gradient": torch.optim.SGD,
    "sgd-momentum": torch.optim.SGD,
    "sgd-update": torch.optim.SGD,
    "sgd-nesterov-foreach": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


def torch_twin(name, params):
    """torch's optimizer with the hyperparameters of one of ours."""
    hyper = {k: v for k, v in OURS[name].keywords.items() if k != "placement"}
    return TORCH[name](params, **hyper)


@pytest.mark.parametrize("name", TORCH)
def test_a_torch_checkpoint_leaves_the_activation_on(name, tmp_path):
    model = make_model()
    plain = torch_twin(name, model.parameters())
    train(model, plain, 3)
    saved = through_a_file(plain.state_dict(), tmp_path)
    given = copy.deepcopy(saved)
    ours = OURS[name](model.parameters(), activation=F)
    placement = ours.param_groups[0]["gaf_placement"]
    ours.load_state_dict(saved)
    assert_same(saved, given)
    assert gaf.activation_of(ours.param_groups[0]) == F
    assert ours.param_groups[0]["gaf_placement"] == placement
    for p in model.parameters():
        expected = dict(plain.state[p])
        if placement == "update":  # v holds the learning rate: -lr * buffer
            expected = {"gaf_velocity": -0.1 * expected["momentum_buffer"]}
        assert_same(dict(ours.state[p]), expected)
    train(model, ours, range(3, 5))


def test_a_converted_velocity_goes_on_where_torch_was():
    """With f close to the identity "update" is torch's SGD, so a resumed run must follow it."""
    model, judge = make_model().double(), make_model().double()
    plain = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    other = torch.optim.SGD(judge.parameters(), lr=0.1, momentum=0.9)

    def run(model, opt, steps):
        for step in steps:
            model.zero_grad()
            generator = torch.Generator().manual_seed(step)
            x = torch.randn(8, 5, generator=generator, dtype=torch.float64)
            (model(x) ** 2).mean().backward()
            opt.step()

    run(model, plain, range(3))
    run(judge, other, range(5))
    ours = gaf.SGD(
        model.parameters(),
        lr=0.1,
        momentum=0.9,
        activation=gaf.Arctan(1e6, 1e-6),  # alpha * beta = 1, and linear over everything here
        placement="update",
    )
    ours.load_state_dict(plain.state_dict())
    run(model, ours, range(3, 5))
    for p, q in zip(model.parameters(), judge.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["float", "tensor"])
def test_a_fused_torch_checkpoint(lr, tmp_path):
    """Its flag fused=True comes along; the activated step takes the path it has."""
    model, judge = make_model(), make_model()
    plain = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, fused=True)
    train(model, plain, 2)
    judge.load_state_dict(model.state_dict())
    saved = through_a_file(plain.state_dict(), tmp_path)
    ours = gaf.SGD(model.parameters(), lr=lr, momentum=0.9, activation=F)
    ours.load_state_dict(copy.deepcopy(saved))  # torch shares the tensors it is given
    reference = gaf.SGD(judge.parameters(), lr=lr, momentum=0.9, activation=F, foreach=False)
    saved["param_groups"][0].update(fused=None, foreach=False)
    reference.load_state_dict(saved)
    train(model, ours, 2)
    train(judge, reference, 2)
    assert_same(snapshot(ours), snapshot(reference))


@pytest.mark.parametrize("cls", [gaf.SGD, gaf.Adam, gaf.AdamW])
def test_a_fused_torch_checkpoint_under_a_scaler(cls):
    """fused=True comes along, yet with an activation the scaler must unscale, not the step."""
    model, judge = make_model(), make_model()
    hyper = {"lr": 0.1, "momentum": 0.9} if cls is gaf.SGD else {"lr": 0.01}
    plain = getattr(torch.optim, cls.__name__)(model.parameters(), fused=True, **hyper)
    train(model, plain, 2)
    judge.load_state_dict(model.state_dict())
    ours, other = (cls(m.parameters(), activation=F, **hyper) for m in (model, judge))
    for opt in (ours, other):
        opt.load_state_dict(copy.deepcopy(plain.state_dict()))
    scaler = torch.amp.GradScaler(device="cpu", init_scale=2.0**16)
    for step in range(2, 4):
        model.zero_grad()
        scaler.scale(loss_of(model, step)).backward()
        scaler.step(ours)
        scaler.update()
        train(judge, other, range(step, step + 1))
        assert_same(snapshot(ours), snapshot(other))


@pytest.mark.parametrize("name", [n for n in TORCH if n != "sgd-update"])
def test_ours_back_into_torch(name, tmp_path):
    model, judge = make_model(), make_model()
    ours = OURS[name](model.parameters(), activation=F)
    train(model, ours, 3)
    judge.load_state_dict(model.state_dict())
    plain = torch_twin(name, judge.parameters())
    plain.load_state_dict(through_a_file(ours.state_dict(), tmp_path))
    for p, q in zip(model.parameters(), judge.parameters(), strict=True):
        assert_same(dict(plain.state[q]), dict(ours.state[p]))

    off = OURS[name](model.parameters(), activation=None)  # torch's rule in ours is the judge
    off.load_state_dict({**off.state_dict(), "state": ours.state_dict()["state"]})
    train(judge, plain, range(3, 5))
    train(model, off, range(3, 5))
    assert_same(snapshot(off), snapshot(plain))


@pytest.mark.parametrize("name", FOREIGN)
def test_activated_and_plain_read_each_other(name, tmp_path):
    model, judge = make_model(), make_model()
    opt = gaf.activate(FOREIGN[name](model.parameters()), F)
    train(model, opt, 2)
    judge.load_state_dict(model.state_dict())
    plain = FOREIGN[name](judge.parameters())
    plain.load_state_dict(through_a_file(opt.state_dict(), tmp_path))
    gaf.deactivate(opt)
    train(model, opt, range(2, 4))
    train(judge, plain, range(2, 4))
    assert_same(snapshot(opt), snapshot(plain))

    again = gaf.activate(FOREIGN[name](model.parameters()), "tanh(0.3, 5)")
    again.load_state_dict(through_a_file(opt.state_dict(), tmp_path))  # it says nothing of f
    assert gaf.is_activated(again)
    assert gaf.activation_of(again.param_groups[0]) == gaf.Tanh(0.3, 5)


@pytest.mark.usefixtures("no_kernels")
def test_an_activated_sgd_into_ours_and_back(tmp_path):
    model, fresh = make_model(), make_model(1)
    activated = gaf.activate(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), F)
    train(model, activated, 2)
    fresh.load_state_dict(model.state_dict())
    ours = gaf.SGD(
        fresh.parameters(), lr=0.1, momentum=0.9, activation="tanh", placement="gradient"
    )
    ours.load_state_dict(through_a_file(activated.state_dict(), tmp_path))
    train(model, activated, range(2, 4))
    train(fresh, ours, range(2, 4))
    assert_same(snapshot(ours)["params"], snapshot(activated)["params"])
    assert_same(snapshot(ours)["state"], snapshot(activated)["state"])
    activated.load_state_dict(ours.state_dict())
    assert gaf.activation_of(activated.param_groups[0]) == F


@pytest.mark.parametrize("there", gaf.PLACEMENTS)
@pytest.mark.parametrize("here", gaf.PLACEMENTS)
def test_another_placement_is_refused(here, there, tmp_path):
    model = make_model()
    saved_by = gaf.SGD(model.parameters(), momentum=0.9, activation=F, placement=there)
    train(model, saved_by, 1)
    opt = gaf.SGD(model.parameters(), momentum=0.9, activation=F, placement=here)
    train(model, opt, 1)
    saved = through_a_file(saved_by.state_dict(), tmp_path)
    if here == there:
        opt.load_state_dict(saved)
        return
    before, groups = snapshot(opt), copy.deepcopy(opt.state_dict()["param_groups"])
    with pytest.raises(ValueError, match=f"saved with placement='{there}'.*placement='{here}'"):
        opt.load_state_dict(saved)
    assert_same(snapshot(opt), before)
    assert opt.state_dict()["param_groups"] == groups


@pytest.mark.parametrize("there", ["momentum", "update"])
def test_another_placement_is_refused_by_an_activated_optimizer(there):
    model = make_model()
    saved_by = gaf.SGD(model.parameters(), momentum=0.9, activation=F, placement=there)
    train(model, saved_by, 1)
    activated = gaf.activate(torch.optim.SGD(model.parameters(), momentum=0.9), F)
    with pytest.raises(ValueError, match=f"placement='{there}'"):
        activated.load_state_dict(saved_by.state_dict())


@pytest.mark.parametrize("name", OURS)
def test_a_checkpoint_without_an_activation_switches_it_off_with_a_warning(name, tmp_path):
    model = make_model()
    off = OURS[name](model.parameters(), activation=None)
    train(model, off, 1)
    saved = through_a_file(off.state_dict(), tmp_path)
    opt = OURS[name](model.parameters(), activation=F)
    with pytest.warns(UserWarning, match=r"Arctan\(.*is switched off in parameter group 0"):
        opt.load_state_dict(copy.deepcopy(saved))  # torch shares the tensors it is given
    assert gaf.activation_of(opt.param_groups[0]) is None
    twin = OURS[name](model.parameters(), activation=None)
    twin.load_state_dict(saved)  # None into None: nothing to say
    start = copy.deepcopy(model.state_dict())
    train(model, opt, range(1, 3))
    first = snapshot(opt)
    model.load_state_dict(start)
    train(model, twin, range(1, 3))
    assert_same(snapshot(twin), first)


@pytest.mark.parametrize("name", OURS)
def test_a_checkpoint_with_an_activation_switches_it_on(name, tmp_path):
    model, fresh = make_model(), make_model(1)
    opt = OURS[name](model.parameters(), activation=F)
    train(model, opt, 2)
    fresh.load_state_dict(model.state_dict())
    off = OURS[name](fresh.parameters(), activation=None)
    off.load_state_dict(through_a_file(opt.state_dict(), tmp_path))
    assert gaf.activation_of(off.param_groups[0]) == F
    train(model, opt, range(2, 4))
    train(fresh, off, range(2, 4))
    assert_same(snapshot(off), snapshot(opt))


@pytest.mark.parametrize("name", ["ours:sgd-momentum", "ours:adamw", "activated:nadam"])
def test_an_unknown_function_is_named(name):
    model = make_model()
    opt = make(name, model.parameters())
    train(model, opt, 1)
    before = snapshot(opt)
    saved = opt.state_dict()
    saved["param_groups"][0]["gaf_function"] = "arctann"
    with pytest.raises(ValueError, match=r"unknown .*'arctann'; did you mean 'arctan'\?"):
        opt.load_state_dict(saved)
    saved["param_groups"][0].update(gaf_function="arctan", gaf_params=(-1.0, 20.0))
    with pytest.raises(ValueError, match="alpha must be positive and finite, got -1"):
        opt.load_state_dict(saved)
    assert_same(snapshot(opt), before)
    assert gaf.activation_of(opt.param_groups[0]) == F


@pytest.mark.parametrize("name", ["ours:sgd", "activated:rmsprop"])
def test_a_different_number_of_groups_is_torchs_error(name):
    model = make_model()
    opt = make(name, model.parameters())
    saved = opt.state_dict()
    saved["param_groups"] = saved["param_groups"] * 2
    with pytest.raises(ValueError, match="different number of parameter groups"):
        opt.load_state_dict(saved)


@pytest.mark.parametrize("name", ["ours:sgd-momentum", "activated:rmsprop"])
def test_hooks_of_the_user_see_every_load(name):
    model = make_model()
    opt = make(name, model.parameters())
    train(model, opt, 1)
    seen = []
    opt.register_load_state_dict_pre_hook(lambda o, s: seen.append(len(s["param_groups"])))
    opt.register_load_state_dict_post_hook(lambda o: seen.append("after"))
    opt.load_state_dict(opt.state_dict())
    assert seen == [1, "after"]


def test_named_parameters_keep_their_names(tmp_path):
    model, fresh = make_model(), make_model(1)
    opt = gaf.SGD(model.named_parameters(), lr=0.1, momentum=0.9, activation=F)
    train(model, opt, 2)
    fresh.load_state_dict(model.state_dict())
    other = gaf.SGD(fresh.named_parameters(), lr=0.1, momentum=0.9, activation=F)
    other.load_state_dict(through_a_file(opt.state_dict(), tmp_path))
    assert other.param_groups[0]["param_names"] == [name for name, _ in model.named_parameters()]
    train(model, opt, range(2, 4))
    train(fresh, other, range(2, 4))
    assert_same(snapshot(other), snapshot(opt))


@pytest.mark.parametrize(
    "wrong",
    [
        {"gaf_function": 3},
        {"gaf_function": "nosuch"},
        {"gaf_params": (0.1,)},
        {"gaf_params": None},
        {"gaf_params": (-1.0, 2.0)},
        {"gaf_placement": "foo"},
        {"gaf_placement": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("activation", [None, F])
def test_settings_that_make_no_sense(wrong, activation):
    opt = gaf.SGD(make_model().parameters(), lr=0.1, activation=F)
    saved = opt.state_dict()
    saved["param_groups"][0].update(wrong)
    fresh = gaf.SGD(make_model().parameters(), lr=0.1, activation=activation)
    with pytest.raises(ValueError, match=r"the checkpoint's activation .* cannot be read"):
        fresh.load_state_dict(saved)
    del saved["param_groups"][0]["gaf_placement"]
    with pytest.raises(ValueError, match="a key is missing"):
        fresh.load_state_dict(saved)
