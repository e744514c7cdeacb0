"""Images through the engine: interrupted within an epoch and resumed, and the same bits twice."""

import pytest

from gaf.lab.engine.config import read
from gaf.lab.engine.run import train
from gaf.lab.engine.signals import Interrupted
from tests.lab.engine.test_train import Kick
from tests.lab.engine.tiny import assert_same_run

MODEL = {"model": "resnet8-cifar", "model_options": {}}


def config(task, **changes):
    base = {
        "name": "images",
        "task": task,
        "optimizer": {"lr": 0.05, "momentum": 0.9, "activation": "arctan(0.1, 20)"},
        "epochs": 1,
        "batch_size": 8,
        "accelerator": "cpu",
        "threads": 1,
    }
    return read({**base, **changes})


def tasks(data_dir):
    return {
        "cifar100": {
            **MODEL,
            "data": "cifar100",
            "data_options": {"limit": 40, "root": str(data_dir)},
        },
        "imagefolder": {
            **MODEL,
            "data": f"imagefolder:{data_dir / 'imagenette-subset'}",
            "data_options": {"limit": 40, "size": 32, "workers": 2},
        },
    }


@pytest.mark.parametrize("name", ["cifar100", "imagefolder"])
def test_interrupted_within_an_epoch_and_resumed(name, data_dir, tmp_path):
    chosen = config(tasks(data_dir)[name])
    train(chosen, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(chosen, tmp_path / "cut", progress=Kick(3))
    train(chosen, tmp_path / "cut")
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_the_same_bits_twice_on_two_threads(tmp_path):
    task = {"data": "digits", "model": "digits-cnn", "data_options": {"limit": 64}}
    digits = config(task, threads=2, batch_size=32)
    train(digits, tmp_path / "one")
    train(digits, tmp_path / "two")
    assert_same_run(tmp_path / "one", tmp_path / "two")
