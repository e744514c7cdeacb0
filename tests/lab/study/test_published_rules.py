"""Published optimizers as settings: installed into a folder of their own, trained, interrupted, resumed."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import torch

from gaf.lab.engine import folder as folders
from gaf.lab.engine.optimizers import make_optimizer
from gaf.lab.engine.run import train
from gaf.lab.engine.signals import Interrupted
from gaf.lab.study.settings import make
from tests.lab.engine.test_named_rules import StopsAt
from tests.lab.engine.tiny import assert_same_run, last_checkpoint, tiny_config

PINS = {"lion-pytorch": "0.2.5", "prodigyopt": "1.1.2", "schedulefree": "1.4.1"}
PACKAGES = ("lion_pytorch", "prodigyopt", "schedulefree")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    pins = [f"{name}=={version}" for name, version in PINS.items()]
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder))
    subprocess.run([*pip, *pins], check=True)
    sys.path.append(str(folder))
    importlib.invalidate_caches()
    yield
    sys.path.remove(str(folder))
    for name in list(sys.modules):
        if name.partition(".")[0] in PACKAGES:
            del sys.modules[name]


BASE = tiny_config("optimizer.activation=null")
RULES = {
    "lion_pytorch:Lion(lr=0.003, weight_decay=0.01)": (
        "lion_pytorch:Lion(0.003, weight_decay=0.01)",
        True,
    ),
    "lion_pytorch:Lion + arctan(0.1, 20)": (
        "lion_pytorch:Lion + arctan(0.1, 20)@gradient",
        True,
    ),
    "prodigyopt:Prodigy": ("prodigyopt:Prodigy", False),
    "schedulefree:SGDScheduleFree(0.5)": ("schedulefree:SGDScheduleFree(0.5)", True),
    "schedulefree:AdamWScheduleFree": ("schedulefree:AdamWScheduleFree", True),
    "schedulefree:SGDScheduleFree + untuned": ("schedulefree:SGDScheduleFree + untuned", False),
}


@pytest.mark.parametrize("text", RULES)
def test_it_trains_and_goes_on_to_the_bit(text, tmp_path):
    setting = make(BASE, text)
    assert (setting.name, setting.has_rate) == RULES[text]
    assert make(BASE, setting.name) == setting
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    result = train(setting.config, whole)
    assert not result.diverged
    with pytest.raises(Interrupted):
        train(setting.config, parted, progress=StopsAt(7))
    assert train(setting.config, parted).final == result.final
    assert_same_run(whole, parted)
    identity = folders.read_identity(whole)
    assert identity is not None
    versions = identity.source[f"the rule {setting.config.optimizer.name}"]
    assert versions.items() <= PINS.items()
    assert len(versions) == 1


def test_the_model_of_a_schedule_free_checkpoint_is_the_one_to_evaluate(tmp_path):
    config = make(BASE, "schedulefree:SGDScheduleFree(0.5)").config
    train(config, tmp_path)
    saved = last_checkpoint(tmp_path)
    states = saved["optimizer"]["state"].values()
    for x, y, state in zip(saved["model"].values(), saved["training_weights"], states, strict=True):
        # y = 0.1 z + 0.9 x, of which x is the mean that the rule evaluates at
        torch.testing.assert_close(y, 0.1 * state["z"] + 0.9 * x)
        assert not torch.equal(x, y)


def test_ours_is_the_published_lion():
    """Our grammar passes on what the class is called with."""
    rule = make(BASE, "lion_pytorch:Lion(0.01, betas=(0.8, 0.9))").config.optimizer
    w = torch.nn.Parameter(torch.ones(3))
    group = make_optimizer(rule, [w]).param_groups[0]
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.01, (0.8, 0.9), 0.0)
