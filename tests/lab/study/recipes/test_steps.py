"""Two real steps on images through the engine, for every dataset and family of recipes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gaf.lab.engine.config import override
from gaf.lab.engine.run import train
from gaf.lab.study import recipes

QUICK = ["iterations=2", "batch_size=8", "threads=1", "task.data_options.limit=16"]
CIFAR_RECORD = 3072


def two_steps(name: str, folder: Path, *changes: str) -> None:
    result = train(override(recipes.get(name), [*QUICK, *changes]), folder)
    assert result.steps == 2
    assert not result.diverged
    assert math.isfinite(result.final["loss"])
    assert (folder / "config.json").is_file()


@pytest.fixture(scope="module")
def cifar10(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of CIFAR-100's subset as records of CIFAR-10, labelled by the fine class modulo 10."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    content = (data_dir / "cifar-100-subset" / "cifar-100-binary" / "test.bin").read_bytes()
    size = CIFAR_RECORD + 2
    records = [content[at : at + size] for at in range(0, 120 * size, size)]
    records = [bytes([record[1] % 10]) + record[2:] for record in records]
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    for i, name in enumerate(names):
        (folder / name).write_bytes(b"".join(records[20 * i : 20 * (i + 1)]))
    return root


@pytest.mark.parametrize(
    "name",
    [
        "digits-cnn-sgdm",
        "digits-cnn-sgdm-arctan-0.1-20@momentum",
        "digits-deep-mlp-sgd-arctan-0.01-100000@gradient",
        pytest.param("digits-deep-mlp-sgd-tanh-0.1-20@update+control", marks=pytest.mark.slow),
    ],
)
def test_digits(name, tmp_path):
    two_steps(name, tmp_path / "run")


@pytest.mark.parametrize(
    "name",
    [
        "cifar100-resnet8-sgdm-log-0.1-20@update",
        # Table II: each model, each column, each placement
        pytest.param("small-cifar100-densenet121-sgdm", marks=pytest.mark.slow),
        "small-cifar100-densenet169-sgdm-tanh-0.1-20@momentum",
        "small-cifar100-dpn26-sgdm-tanh-0.2-10@update",
        pytest.param("small-cifar100-googlenet-sgdm-log-0.1-20@gradient", marks=pytest.mark.slow),
        "small-cifar100-resnet50-sgdm-log-0.2-10@momentum",
        "small-cifar100-regnetx-200mf-sgdm-arctan-0.1-20@update",
        pytest.param(
            "small-cifar100-regnetx-200mf-sgdm-arctan-0.2-10@gradient+control",
            marks=pytest.mark.slow,
        ),
        # Table III
        pytest.param("small-cifar100-resnet34-adam", marks=pytest.mark.slow),
        "small-cifar100-preact-resnet34-adam-arctan-0.1-20@gradient",
        pytest.param("small-cifar100-resnet50-adam-arctan-0.2-10@gradient", marks=pytest.mark.slow),
        pytest.param(
            "small-cifar100-preact-resnet50-adam-arctan-0.1-20@gradient+control",
            marks=pytest.mark.slow,
        ),
        # Table I
        pytest.param("small-imagenet-resnet18-sgdm", marks=pytest.mark.slow),
        "small-imagenet-resnet34-sgdm-clip-value-0.1",
        "small-imagenet-resnet50-sgdm-clip-norm-0.1",
        pytest.param(
            "small-imagenet-se-resnet18-sgdm-arctan-0.1-20@momentum", marks=pytest.mark.slow
        ),
        pytest.param(
            "small-imagenet-se-resnet34-sgdm-arctan-0.2-10@update", marks=pytest.mark.slow
        ),
        "small-imagenet-se-resnet50-sgdm-arctan-0.1-20@gradient",
    ],
)
def test_cifar100(name, data_dir, tmp_path):
    two_steps(name, tmp_path / "run", f"task.data_options.root={data_dir}")


@pytest.mark.parametrize(
    "name",
    ["small-cifar10-resnet34-adam", "small-cifar10-preact-resnet50-adam-arctan-0.1-20@gradient"],
)
def test_cifar10(name, cifar10, tmp_path):
    two_steps(name, tmp_path / "run", f"task.data_options.root={cifar10}")


@pytest.mark.parametrize(
    "name",
    [
        "imagenet-se-resnet18-sgdm-arctan-0.1-20@momentum",
        pytest.param("imagenet-resnet34-sgdm-clip-value-0.1", marks=pytest.mark.slow),
    ],
)
def test_imagenet_in_mixed_precision(name, data_dir, tmp_path):
    """The recipe of the paper on a folder of photographs, its model at an eighth of the width."""
    two_steps(
        name,
        tmp_path / "run",
        f"task.data=imagefolder:{data_dir / 'imagenette-subset'}",
        "task.data_options.workers=0",
        "task.model_options.width=0.125",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "cifar100-resnet50-sgdm-log-0.1-20@momentum",
        "cifar100-googlenet-sgdm-tanh-0.2-10@update",
        "cifar100-preact-resnet50-adam-arctan-0.1-20@gradient",
        "cifar100-densenet121-sgdm",
    ],
)
def test_cifar100_at_full_size(name, data_dir, tmp_path):
    two_steps(name, tmp_path / "run", f"task.data_options.root={data_dir}")


@pytest.mark.slow
def test_deep_sigmoid_perceptron_needs_a_steep_function(tmp_path):
    """The vanishing gradient: chance without f and with a preset, and a steep f trains."""

    def accuracy(name: str) -> float:
        config = override(recipes.get(name), ["threads=1", "evaluate_every=0"])
        return train(config, tmp_path / name).final["top1"]

    assert accuracy("digits-deep-mlp-sgd") < 0.15
    assert accuracy("digits-deep-mlp-sgd-arctan-0.1-20@gradient") < 0.15
    assert accuracy("digits-deep-mlp-sgd-arctan-0.01-100000@gradient") > 0.8


@pytest.mark.slow
def test_digits_cnn_learns(tmp_path):
    config = override(recipes.get("digits-cnn-sgdm"), ["threads=1", "evaluate_every=0"])
    assert train(config, tmp_path / "run").final["top1"] > 0.95
