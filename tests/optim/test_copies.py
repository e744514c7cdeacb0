"""pickle and deepcopy keep the activation, where torch alone would drop it without a word."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
import torch

import gaf
from tests.optim.helpers import (
    EVERY,
    FOREIGN,
    FUSED,
    OURS,
    F,
    assert_same,
    make,
    make_model,
    parameters_of,
    snapshot,
    train,
)

WAYS = {
    "deepcopy": copy.deepcopy,
    "twice": lambda opt: copy.deepcopy(copy.deepcopy(opt)),
    "pickle": lambda opt: pickle.loads(pickle.dumps(opt)),
    "pickle of deepcopy": lambda opt: pickle.loads(pickle.dumps(copy.deepcopy(opt))),
    "old protocol": lambda opt: pickle.loads(pickle.dumps(opt, protocol=2)),
}


def feed(opt, step):
    """The same gradients for every optimizer with parameters of these shapes."""
    generator = torch.Generator().manual_seed(step)
    for p in parameters_of(opt):
        p.grad = 0.2 * torch.randn(p.shape, generator=generator)


def advance(opt, steps):
    for step in steps:
        feed(opt, step)
        opt.step()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", EVERY)
def test_a_copy_goes_on_to_the_bit(name, way):
    opt = make(name, make_model().parameters())
    advance(opt, range(2))
    other = WAYS[way](opt)
    assert type(other) is type(opt)
    assert gaf.is_activated(other) == gaf.is_activated(opt) == name.startswith("activated")
    assert gaf.activation_of(other.param_groups[0]) == F
    before = snapshot(opt)
    advance(other, range(2, 4))
    assert_same(snapshot(opt), before)  # they share nothing
    advance(opt, range(2, 4))
    assert_same(snapshot(other), snapshot(opt))


def adagrad_takes_groups() -> bool:
    """Whether a group that is added to torch's own Adagrad can take a step."""
    p = torch.ones(3, requires_grad=True)
    opt = torch.optim.Adagrad([torch.ones(1)])
    opt.add_param_group({"params": [p]})
    p.grad = torch.ones(3)
    try:
        opt.step()
    except KeyError:
        return False
    return True


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", EVERY)
def test_a_copy_takes_more_groups_and_checkpoints(name, way):
    if "adagrad" in name and not adagrad_takes_groups():
        pytest.skip(
            "this torch's Adagrad makes states only in its constructor: no group can follow"
        )
    model = make_model()
    opt = make(name, model[0].parameters())
    advance(opt, range(1))
    other = WAYS[way](opt)
    extra = [torch.ones(3, requires_grad=True) for _ in range(3)]
    for o, p in ((opt, extra[0]), (other, extra[1])):
        o.add_param_group({"params": [p]})
        assert gaf.activation_of(o.param_groups[1]) == F
    other.add_param_group({"params": [extra[2]], "activation": None})
    assert gaf.activation_of(other.param_groups[2]) is None
    assert len(opt.param_groups) == 2
    del other.param_groups[2]
    advance(opt, range(1, 3))
    advance(other, range(1, 3))
    assert_same(snapshot(other), snapshot(opt))

    plain = copy.deepcopy(opt.state_dict())
    for group in plain["param_groups"]:
        for key in [key for key in group if key.startswith("gaf_")]:
            del group[key]
    if opt.param_groups[0]["gaf_placement"] != "update":
        other.load_state_dict(plain)  # as from torch.optim: f stays on
        assert gaf.activation_of(other.param_groups[0]) == F


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FOREIGN)
def test_a_copy_can_be_deactivated_and_the_original_stays(name, way):
    opt = make(f"activated:{name}", make_model().parameters())
    other = gaf.deactivate(WAYS[way](opt))
    assert gaf.is_activated(opt)
    assert not gaf.is_activated(other)
    plain = FOREIGN[name](make_model().parameters())
    advance(other, range(2))
    advance(plain, range(2))
    assert_same(snapshot(other), snapshot(plain))
    assert other.param_groups[0].keys() == plain.param_groups[0].keys()
    with pytest.raises(ValueError, match="activated already"):
        gaf.activate(opt, F)


@pytest.mark.parametrize("name", FUSED)
def test_a_copy_of_a_fused_one_under_a_scaler(name):
    # torch forgets on copying that the optimizer unscales by itself; the scaler then does it
    opt = make(f"activated:{name}", make_model().parameters())
    other = copy.deepcopy(opt)
    scaler = torch.amp.GradScaler(device="cpu", init_scale=2.0**16)
    for step in range(2):
        feed(opt, step)
        opt.step()
        feed(other, step)
        for p in parameters_of(other):
            p.grad *= 2.0**16
        scaler.scale(torch.ones(1))
        scaler.step(other)
        scaler.update()
    assert_same(snapshot(other), snapshot(opt))


@pytest.mark.parametrize("name", ["ours:sgd-momentum", "activated:rmsprop"])
def test_a_copy_is_not_monitored(name):
    opt = make(name, make_model().parameters())
    monitor = gaf.Monitor(opt)
    advance(opt, range(1))
    other = copy.deepcopy(opt)
    advance(other, range(3))
    assert len(monitor.records) == 1
    mine = gaf.Monitor(other)
    advance(other, range(1))
    assert len(mine.records) == 1
    assert len(monitor.records) == 1


@pytest.mark.parametrize("name", ["ours:sgd-update", "ours:adam", "activated:nadam"])
def test_a_copied_model_and_optimizer_stay_together(name):
    model = make_model()
    opt = make(name, model.parameters())
    train(model, opt, 2)
    other_model, other = copy.deepcopy((model, opt))
    assert next(parameters_of(other)) is other_model[0].weight
    train(model, opt, range(2, 4))
    train(other_model, other, range(2, 4))
    assert_same(snapshot(other), snapshot(opt))


def test_settings_per_group_are_copied():
    model = make_model()
    opt = gaf.SGD(
        [
            {"params": model[0].parameters(), "activation": None},
            {"params": model[2].parameters(), "placement": "gradient"},
        ],
        lr=0.1,
        momentum=0.9,
        activation="log(0.2, 10)",
        placement="update",
    )
    other = pickle.loads(pickle.dumps(opt))
    other.add_param_group({"params": [torch.zeros(1, requires_grad=True)]})
    assert [gaf.activation_of(g) for g in other.param_groups] == [
        None,
        gaf.Log(0.2, 10),
        gaf.Log(0.2, 10),
    ]
    assert [g["gaf_placement"] for g in other.param_groups] == [None, "gradient", "update"]


IN_A_FRESH_PROCESS = """
import pickle, sys
import torch

path = sys.argv[1]
with open(path, "rb") as file:
    opts = pickle.load(file)  # nothing here has imported gaf
calls = []
for opt in opts:
    # torch numbers hooks in each process anew, so a number could be one that was pickled
    torch.utils.hooks.RemovableHandle.next_id = 0
    opt.register_step_pre_hook(lambda o, args, kwargs: calls.append("before"))
    opt.register_step_post_hook(lambda o, args, kwargs: calls.append("after"))
    for step in range(2, 4):
        generator = torch.Generator().manual_seed(step)
        for group in opt.param_groups:
            for p in group["params"]:
                p.grad = 0.2 * torch.randn(p.shape, generator=generator)
        opt.step()
assert calls == ["before", "after"] * 2 * len(opts), calls
torch.save([[p.detach() for g in opt.param_groups for p in g["params"]] for opt in opts], path)
"""


@pytest.mark.slow
def test_a_fresh_process_goes_on_to_the_bit(tmp_path):
    names = [*(f"ours:{name}" for name in OURS), *(f"activated:{name}" for name in FOREIGN)]
    opts = [make(name, make_model().parameters()) for name in names]
    for opt in opts:
        advance(opt, range(2))
    path = tmp_path / "optimizers.pkl"
    path.write_bytes(pickle.dumps(opts))
    command = [sys.executable, "-W", "error", "-c", IN_A_FRESH_PROCESS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for opt, params, name in zip(opts, torch.load(path, weights_only=True), names, strict=True):
        advance(opt, range(2, 4))
        assert_same(params, [p.detach() for p in parameters_of(opt)], name)
