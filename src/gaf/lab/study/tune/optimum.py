"""Step (b): the loss curve near the optimum that a run has reached.

Only tensors and plain values are read from its checkpoint; which model to build, its config says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.lab.engine import checkpoint, rng
from gaf.lab.engine.config import RunConfig
from gaf.lab.landscape import slices
from gaf.lab.landscape.slices import check_state
from gaf.lab.landscape.slices_evaluate import Loss
from gaf.lab.study.tune.shape import Shape, judge
from gaf.lab.tasks import Task, load_task

SAMPLES = 512  # of the training set that a curve's loss is the mean of
BATCH = 128
RADIUS = 0.5  # each filter is changed by half of its own length at the ends
LEARNED = (
    0.05  # of the loss that a training began with must be gone before one speaks of an optimum
)
DIRECTIONS = 3  # whose curves are averaged: one random direction is an accident


@dataclass(frozen=True)
class Reached:
    """A model as a run has left it."""

    config: RunConfig
    task: Task
    model: nn.Module
    path: Path  # of the checkpoint
    step: int


@dataclass(frozen=True)
class Curve:
    """The loss near an optimum: its mean over directions, each direction's, and the shape of the mean."""

    w: tuple[float, ...]
    losses: tuple[float, ...]
    each: tuple[tuple[float, ...], ...]
    shape: Shape | None  # None where there is none to judge
    why: str = ""  # then


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], int]:
    """The model's state in a checkpoint, and its step."""
    _, found = checkpoint.find(path)
    return checkpoint.load_model(found)


def reached(path: Path, config: RunConfig) -> Reached:
    """The model of a checkpoint.

    Args:
        path: of a run's folder, or of one of its checkpoints.
        config: of the run; not read here, since what a folder says must not be imported by itself.
    """
    state, step = read_checkpoint(path)
    task = load_task(config.task)
    with rng.own_settings(None):
        model = task.build_model()
    check_state(model, state, f"the checkpoint in {path}")
    model.load_state_dict(state)
    return Reached(config, task, model.eval(), path, step)


def training_loss(task: Task, samples: int = SAMPLES) -> Loss:
    """The mean loss over the first samples of the training set, as the first epoch shows them."""
    source = task.train_source()
    indices = torch.arange(min(samples, len(source)))
    parts = indices.split(BATCH)
    with rng.own_settings(None):
        cpu = torch.device("cpu")
        batches = list(source.batches(parts, seed=0, epoch=0, device=cpu))

    def loss(model: nn.Module) -> Tensor:
        sums = [
            task.loss(model, batch) * len(part) for part, batch in zip(parts, batches, strict=True)
        ]
        return torch.stack(sums).sum() / len(indices)

    return loss


def curve(
    model: nn.Module,
    loss: Loss,
    *,
    seed: int = 0,
    radius: float = RADIUS,
    biases_and_norms: bool = False,
    start: float | None = None,
) -> Curve:
    """The curve, averaged over a few directions, and its shape.

    Args:
        model: in the middle of the curve.
        loss: of a model.
        seed: of the directions.
        radius: how far each filter is changed at the ends, as a share of its own length.
        biases_and_norms: whether they are changed too.
        start: the loss that training began with. Unset: the model is taken to be at an optimum.
    """
    found = [
        slices.curve(model, loss, seed=seed + i, radius=radius, biases_and_norms=biases_and_norms)
        for i in range(DIRECTIONS)
    ]
    w = found[0].axes[0].tolist()
    mean = torch.stack([each.losses for each in found]).mean(0).tolist()
    middle = mean[len(mean) // 2]
    try:
        if start is not None and not start - middle > LEARNED * abs(start):
            raise GafError(
                f"no optimum to judge: training has brought the loss from {start:.4g} to {middle:.4g} only"
            )
        shape = judge(w, mean)
        why = shape.misfit
    except GafError as error:
        shape, why = None, str(error)
    each = tuple(tuple(one.losses.tolist()) for one in found)
    return Curve(tuple(w), tuple(mean), each, None if why else shape, why)
