"""A task that takes no time, for tests in this process and in others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gaf.lab.engine.config import RunConfig, override, read
from gaf.lab.engine.record import read as read_records
from gaf.lab.tasks import Task

KIND = "tests.lab.engine.tiny:Tiny"


class Blobs:
    """Points around ten centres, moved a little in each epoch as images are cropped."""

    name, classes, shape = "blobs", tuple("0123456789"), (16,)

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        centres = torch.randn(10, 16, generator=torch.Generator().manual_seed(0))
        self.y = torch.arange(count) % 10
        self.x = centres[self.y] + torch.randn(count, 16, generator=generator)
        self.fingerprint = {"blobs": f"{count} of {seed}"}

    def __len__(self) -> int:
        return len(self.y)

    def batches(self, indices, *, seed, epoch, device):
        torch.rand(1)  # as a DataLoader does when it begins: the engine must not care
        for index in indices:
            moved = 0.01 * torch.sin(index[:, None] * (1.0 + seed + epoch))
            yield (self.x[index] + moved).to(device), self.y[index].to(device)


class Tiny(Task):
    def __init__(self, samples=80, test=23, width=16, dropout=0.0, depth=1, explode=0.0) -> None:
        self.train, self.test = Blobs(samples, 1), Blobs(test, 2)
        self.width, self.depth, self.dropout, self.explode = width, depth, dropout, explode
        self.losses = 0

    def build_model(self) -> nn.Module:
        hidden = [
            layer
            for _ in range(self.depth - 1)
            for layer in (nn.Linear(self.width, self.width), nn.Tanh())
        ]
        layers = [nn.Linear(16, self.width), nn.Tanh(), *hidden, nn.Dropout(self.dropout)]
        return nn.Sequential(*layers, nn.Linear(self.width, 10))

    def train_source(self):
        return self.train

    def test_source(self):
        return self.test

    def loss(self, model, batch):
        x, y = batch
        self.losses += 1
        found = nn.functional.cross_entropy(model(x), y)
        return found * math.nan if self.explode and self.losses > self.explode else found

    def outcomes(self, model, batch):
        x, y = batch
        logits = model(x)
        losses = nn.functional.cross_entropy(logits, y, reduction="none")
        return {"loss": losses, "top1": logits.argmax(1) == y, "sample": x[:, 0]}


def tiny_config(*changes: str, **options: Any) -> RunConfig:
    """Three epochs of five steps, each with a checkpoint; momentum and an activation, one thread."""
    base = {
        "name": "tiny",
        "task": {"kind": KIND, "options": options},
        "optimizer": {"lr": 0.1, "momentum": 0.9, "activation": "arctan(0.1, 20)"},
        "epochs": 3,
        "batch_size": 16,
        "accelerator": "cpu",
        "threads": 1,
        "checkpoint_every": 5,
        "log_every": 2,
        "monitor_every": 4,
    }
    return override(read(base), changes)


def last_checkpoint(folder: Path) -> dict[str, Any]:
    """The newest checkpoint of a run, whole."""
    from gaf.lab.engine import checkpoint

    path = checkpoint.steps(Path(folder) / "checkpoints")[0]
    state, own = checkpoint.load(path)
    return {**state, "own": own}


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The records of a run, times aside."""
    return [{k: v for k, v in record.items() if k != "time"} for record in read_records(folder)]


def events(folder: Path) -> list[tuple[int, str, float]]:
    """What TensorBoard reads of a run, times aside."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    path = next((Path(folder) / "tensorboard").iterdir())
    found = [Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()]
    return [
        (event.step, value.tag, value.simple_value)
        for event in found
        for value in event.summary.value
        if "/step_seconds" not in value.tag and "/seconds" not in value.tag
    ]


def assert_same_run(one: Path, other: Path) -> None:
    """Weights, optimizer, random states and records are the same to the bit; times may differ."""
    a, b = last_checkpoint(one), last_checkpoint(other)
    for tree in (a, b):
        tree["state"].pop("seconds")
        tree.pop("lengths")  # times have lengths
    assert_same_tree(a, b)
    assert metrics(one) == metrics(other)
    assert str(events(one)) == str(events(other))  # as text: NaN is not itself


def assert_same_tree(a: Any, b: Any, path: str = "") -> None:
    assert type(a) is type(b), path
    if isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            assert_same_tree(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same_tree(x, y, f"{path}/{i}")
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b), path
    else:
        assert a == b, path
