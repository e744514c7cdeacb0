"""Optimizers that a config names by module and class: made, switched, resumed, refused."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress

import pytest
import torch
from torch import nn

import gaf
from gaf.common.errors import GafError
from gaf.lab.engine import checkpoint
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import OptimizerConfig, matched_control, override, read
from gaf.lab.engine.optimizers import import_rule, make_optimizer
from gaf.lab.engine.run import train
from gaf.lab.engine.signals import Interrupted
from gaf.optim.factory import OURS, of_torch
from gaf.optim.switched import evaluation_weights
from tests.lab.engine import own_rules
from tests.lab.engine.tiny import assert_same_run, last_checkpoint, tiny_config

MODULE = own_rules.__name__
PLAIN = ("optimizer.momentum=0", "optimizer.activation=null")


def named(rule, *changes):
    return tiny_config(f"optimizer.name={rule}", *PLAIN, *changes)


def test_of_torch_by_its_lower_case_name():
    config = OptimizerConfig(name="rmsprop", lr=0.02, weight_decay=0.1, arguments={"momentum": 0.9})
    assert config.name == "torch.optim:RMSprop"
    w = nn.Parameter(torch.ones(3))
    optimizer = make_optimizer(config, [w])
    assert type(optimizer) is torch.optim.RMSprop
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay"], group["momentum"]) == (0.02, 0.1, 0.9)
    assert read(config.model_dump_json(), OptimizerConfig) == config


def test_what_is_not_set_is_not_written():
    assert "arguments" not in OptimizerConfig(name="rmsprop").model_dump()
    assert "arguments" not in OptimizerConfig().model_dump()


@pytest.mark.parametrize("name", sorted(set(of_torch()) - {"lbfgs", "sparseadam"}))
def test_every_one_of_torch_trains(name, tmp_path):
    rule = f"torch.optim:{of_torch()[name].__name__}"
    config = named(rule, "epochs=1", "optimizer.lr=0.01")
    if name == "muon":  # it takes matrices only, and says so
        with pytest.raises(
            GafError, match="refuses its arguments or the model: Muon only supports 2D"
        ):
            train(config, tmp_path)
        return
    assert train(config, tmp_path).steps == 5


def test_lists_are_tuples_and_values_are_the_class_s_to_refuse():
    w = [nn.Parameter(torch.ones(2))]
    rule = {"name": f"{MODULE}:Halving", "lr": 0.1}
    make_optimizer(OptimizerConfig(**rule, arguments={"betas": [0.5]}), w)
    with pytest.raises(
        GafError, match="refuses its arguments or the model: share must be positive"
    ):
        make_optimizer(OptimizerConfig(**rule, arguments={"share": -1}), w)
    with pytest.raises(GafError, match="do not fit: got an unexpected keyword argument 'speed'"):
        make_optimizer(OptimizerConfig(**rule, arguments={"speed": 1}), w)
    with pytest.raises(GafError, match=r"takes no weight_decay: set optimizer\.weight_decay to 0"):
        make_optimizer(OptimizerConfig(**rule, weight_decay=0.1), w)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "no_such_package:Rule",
            "needs the package no_such_package, which is not installed: pip install",
        ),
        (f"{MODULE}:Halvin", f"{MODULE} has no optimizer 'Halvin'; did you mean 'Halving'"),
        (f"{MODULE}:torch", "is not a subclass of torch.optim.Optimizer"),
        ("torch.optim:Optimizer", "is not a subclass of torch.optim.Optimizer"),
        ("os:system", "is not a subclass of torch.optim.Optimizer"),
        ("gaf:SGD", "gaf:SGD is one of gaf's own: name it sgd"),
        ("torch.optim:LBFGS", "its step needs 'closure'"),
        (f"{MODULE}:NeedsClosure", "its step needs 'closure'"),
        (f"{MODULE}:WithoutRate", "it takes no lr"),
        ("tests.lab.engine.no_such:Rule", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_trained_with_is_refused_in_a_sentence(name, says):
    with pytest.raises(GafError) as refused:
        import_rule(name)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"name": "rmspop"}, "unknown optimizer 'rmspop'; did you mean 'rmsprop'?"),
        ({"name": "a b:C"}, "unknown optimizer 'a b:C'"),
        (
            {"name": "rmsprop", "momentum": 0.9},
            "has no momentum here: what it takes stands in optimizer.arg",
        ),
        (
            {"name": "sgd", "arguments": {"momentum": 0.9}},
            "sgd has no arguments but the keys of the config",
        ),
        (
            {"name": "rmsprop", "arguments": {"lr": 0.9}},
            "lr is a key of the config, and not one of",
        ),
        (
            {"name": "rmsprop", "activation": "tanh", "placement": "momentum"},
            "for another optimizer take 'gradient' or 'update'",
        ),
    ],
)
def test_what_a_config_cannot_say(values, says):
    with pytest.raises(GafError) as refused:
        read(values, OptimizerConfig)
    assert says in str(refused.value)


def test_a_function_in_front_of_it():
    w = nn.Parameter(torch.ones(3))
    rule = {"name": f"{MODULE}:Halving", "lr": 1.0, "activation": "arctan(0.1, 20)"}
    config = OptimizerConfig(**rule)
    assert (config.where, config.has_control) == ("gradient", False)
    optimizer = make_optimizer(config, [w])
    w.grad = torch.full((3,), 2.0)
    optimizer.step()
    torch.testing.assert_close(w.detach(), 1 - 0.5 * gaf.Arctan(0.1, 20)(torch.full((3,), 2.0)))
    with pytest.raises(GafError, match=r"what a slope does to .* is not known"):
        matched_control(
            override(tiny_config(*PLAIN), [f"optimizer.{k}={v}" for k, v in rule.items()])
        )


def test_reading_a_config_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    config = named("planted:Rule", "optimizer.activation=tanh", "optimizer.arguments.a=[1, 2]")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / folders.CONFIG).write_text(config.model_dump_json())
    rule = folders.read_config(tmp_path / "run").optimizer
    assert (rule.imported, rule.has_control, rule.where) == (True, False, "gradient")
    assert rule.arguments == {"a": [1, 2]}
    assert "planted" not in sys.modules


def test_the_weights_to_train_at_are_back_to_the_bit():
    w = nn.Parameter(torch.tensor([1.0, 1e-3, 3e5]))
    optimizer = make_optimizer(OptimizerConfig(name=f"{MODULE}:Averaging", lr=0.1), [w])
    for step in range(3):
        w.grad = torch.sin(w.detach() + step)
        optimizer.step()
    before = w.detach().clone()
    with suppress(KeyError), evaluation_weights(optimizer) as weights:
        assert not torch.equal(w, before)
        assert torch.equal(weights[0], before)
        raise KeyError
    assert torch.equal(w, before)
    optimizer.step()  # it is in train mode again
    with evaluation_weights(make_optimizer(OptimizerConfig(), [w])) as weights:
        assert weights is None


class StopsAt:
    """A progress that interrupts the run after a step."""

    def __init__(self, at):
        self.at = at

    def begin(self, *_):
        pass

    def step(self, number, _):
        if number == self.at:
            os.kill(os.getpid(), signal.SIGTERM)

    def say(self, *_):
        pass

    def end(self):
        pass


@pytest.mark.parametrize("stop", [3, 5, 11])
def test_a_rule_that_switches_goes_on_to_the_bit(stop, tmp_path):
    config = named(f"{MODULE}:Averaging", "optimizer.lr=0.3", "optimizer.weight_decay=0.01")
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    result = train(config, whole)
    with pytest.raises(Interrupted):
        train(config, parted, progress=StopsAt(stop))
    assert train(config, parted).final == result.final
    assert_same_run(whole, parted)
    # the model of a checkpoint is the one that was evaluated
    saved = last_checkpoint(whole)
    means = [entry["mean"] for entry in saved["optimizer"]["state"].values()]
    for weights, trained_at, mean in zip(
        saved["model"].values(), saved["training_weights"], means, strict=True
    ):
        assert torch.equal(weights, trained_at + mean)
        assert not torch.equal(weights, trained_at)


def test_a_damaged_list_of_weights_is_told(tmp_path):
    config = named(f"{MODULE}:Averaging")
    with pytest.raises(Interrupted):
        train(config, tmp_path, progress=StopsAt(3))
    path = checkpoint.steps(tmp_path / checkpoint.CHECKPOINTS)[0]
    part = torch.load(path / "part-0.pt", weights_only=True)
    part["state"]["training_weights"].pop()
    entry = checkpoint._write_part(path / "part-0.pt", part)
    manifest = {"format": checkpoint.FORMAT, "step": 3, "parts": [entry]}
    sealed = {**manifest, "sha256": checkpoint._seal(manifest)}
    (path / checkpoint.MANIFEST).write_text(json.dumps(sealed))
    with pytest.raises(checkpoint.Damaged, match="cannot be resumed"):
        train(config, tmp_path)


def test_the_identity_has_the_source_of_a_rule_but_not_of_torch(tmp_path):
    train(named(f"{MODULE}:Halving", "epochs=1"), tmp_path / "own")
    identity = folders.read_identity(tmp_path / "own")
    files = identity.source[f"the rule {MODULE}:Halving"]
    assert "tests/lab/engine/own_rules.py" in files
    assert not any("rule" in part for part in identity.versions)
    train(named("rmsprop", "epochs=1"), tmp_path / "torch")
    assert not any("rule" in part for part in folders.read_identity(tmp_path / "torch").source)


def test_ours_are_ours():
    assert all(OptimizerConfig(name=name).ours for name in OURS)
