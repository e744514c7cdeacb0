"""Two processes train to the weights of one with the whole batch; sharded checkpoints are read by one."""

import shutil

import pytest
import torch

from gaf.lab.engine import checkpoint
from gaf.lab.engine.run import read_result
from tests.lab.engine.processes import arguments, run, together, torchrun
from tests.lab.engine.tiny import last_checkpoint, metrics

CHANGES = ("epochs=3", "batch_size=16", "accumulate=2", "optimizer.clip_norm=1.0")
# 85 samples to train on: the last batch and the rows of weights do not halve
RUNS = {
    "test": (CHANGES, {"samples": 85, "width": 15}),
    "validation": (
        (*CHANGES, "task.validation=0.15", "task.score_on=validation"),
        {"samples": 100, "width": 15},
    ),
}
TOLERANCE = 2e-6  # observed: 3e-8 in weights, 1.2e-7 in velocities; 3e-7 after 20 epochs


@pytest.fixture(scope="module", params=RUNS)
def alone(tmp_path_factory, request):
    """A run in one process, with its changes and options."""
    folder = tmp_path_factory.mktemp("one") / "run"
    changes, options = RUNS[request.param]
    status, _, err = run(arguments(folder, *changes, options=options))
    assert status == 0, err
    return folder, changes, options


def assert_close(one, two):
    a, b = last_checkpoint(one), last_checkpoint(two)
    for tree in ("model",):
        for name in a[tree]:
            torch.testing.assert_close(b[tree][name], a[tree][name], rtol=0, atol=TOLERANCE)
    for i, state in a["optimizer"]["state"].items():
        for name in state:
            other = b["optimizer"]["state"][i][name]
            torch.testing.assert_close(other, state[name], rtol=0, atol=TOLERANCE)
    for x, y in zip(metrics(one), metrics(two), strict=True):
        assert x.keys() == y.keys()
        for key in x:
            assert y[key] == pytest.approx(x[key], abs=1e-5), (key, x, y)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_two_processes_train_to_the_weights_of_one(alone, tmp_path, strategy):
    alone, changes, options = alone
    two = tmp_path / "two"
    args = arguments(two, *changes, f"strategy={strategy}", options=options)
    (torchrun if strategy == "ddp" else together)(2, args)
    assert_close(alone, two)
    assert read_result(two).final["top1"] == read_result(alone).final["top1"]
    newest, before = checkpoint.steps(two / "checkpoints")
    parts = [torch.load(path, weights_only=True) for path in sorted(newest.glob("*.pt"))]
    assert len(parts) == 2
    sharded = strategy == "fsdp2"
    assert bool(parts[1]["pieces"]) == sharded  # each process wrote what it held
    if sharded:
        weight = parts[0]["state"]["model"]["0.weight"]
        rows = [len(part["pieces"][weight["gaf_sharded"]]["values"]) for part in parts]
        assert rows == [8, 7]
        assert weight["shape"] == [15, 16]

    # One process goes on with what two have begun, and two with what one has.
    (two / "finished.json").unlink()
    shutil.rmtree(newest)
    back = tmp_path / "back"
    shutil.copytree(two, back)
    status, _, err = run(arguments(two, *changes, options=options))
    assert status == 0, err
    assert f"resumed at step {int(before.name[5:])}" in err
    assert len(list(checkpoint.steps(two / "checkpoints")[0].glob("*.pt"))) == 1
    assert_close(alone, two)
    together(2, arguments(back, *changes, f"strategy={strategy}", options=options))
    assert_close(alone, back)
