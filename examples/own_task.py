"""A task of your own: fit a curve, with everything the engine does for the built-in ones.

Run it as a script, or from this folder through the command (the run is in runs/own_task-make_task-seed0):

    gaf train own_task:make_task --set "optimizer.activation=arctan(0.1, 20)"
"""

import math
import tempfile

import torch
from torch import nn

from gaf.lab.engine.config import OptimizerConfig, RunConfig, TaskConfig
from gaf.lab.engine.run import train
from gaf.lab.tasks import Task


class Points:
    """Samples by index: what the engine asks a source of data for."""

    name, classes, shape = "sine", (), (1,)

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x = 6 * torch.rand(count, 1, generator=generator) - 3
        self.y = torch.sin(self.x) + 0.05 * torch.randn(count, 1, generator=generator)
        self.fingerprint = {"points": f"{count} of seed {seed}"}  # what identifies the data

    def __len__(self) -> int:
        return len(self.x)

    def batches(self, indices, *, seed, epoch, device):
        for index in indices:
            yield self.x[index].to(device), self.y[index].to(device)


class Curve(Task):
    """Mean squared error, the lower the better."""

    score, higher_is_better, worst = "loss", False, math.inf

    def __init__(self, width: int) -> None:
        self.width = width
        self.train, self.test = Points(512, seed=0), Points(256, seed=1)

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(1, self.width), nn.Tanh(), nn.Linear(self.width, 1))

    def train_source(self):
        return self.train

    def test_source(self):
        return self.test

    def loss(self, model, batch):
        x, y = batch
        return nn.functional.mse_loss(model(x), y)

    def outcomes(self, model, batch):
        x, y = batch
        return {"loss": (model(x) - y).square().flatten(1).mean(1)}  # of each sample


def make_task(width: int = 32) -> Task:
    """What gaf train own_task:make_task calls; --set task.options.width=64 reaches it as an argument."""
    return Curve(width)


if __name__ == "__main__":
    config = RunConfig(
        name="sine",
        task=TaskConfig(kind="own_task:make_task", options={"width": 32}),
        optimizer=OptimizerConfig(lr=0.05, momentum=0.9, activation="arctan(0.1, 20)"),
        epochs=20,
        batch_size=64,
        threads=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        result = train(config, folder)
    print(f"mean squared error {result.final['loss']:.4f} after {result.steps} steps")
    assert result.final["loss"] < 0.1
