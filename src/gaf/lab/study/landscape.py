"""The loss around what a run has reached: the curve near its optimum (step (b) of tuning), and a surface.

Only tensors and plain values are read from its checkpoint; which model to build, its config says.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
# Of the loss that a training began with: so much must be gone before one speaks of an optimum.
LEARNED = 0.05
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

    def record(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "w": list(self.w),
            "losses": list(self.losses),
            "each": [list(losses) for losses in self.each],
            "shape": asdict(self.shape) if self.shape else None,
            "why": self.why,
        }

    def sentence(self) -> str:
        """The shape in words."""
        shape = self.shape
        if shape is None:
            return f"{self.why[0].upper()}{self.why[1:]}."
        low, high = shape.large
        where = f" Steeper than the nearest quadratic for |w| from {low:.2g} to {high:.2g}."
        return (
            f"Near the optimum the loss goes with |w|^{shape.power:.2f} ± {shape.error:.2f}: {shape.type}, "
            f"confidence {shape.confidence:.2f}.{where if high > low else ''}"
        )


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], int]:
    """The model's state in a checkpoint, and its step."""
    _, step = checkpoint.find(path)
    return checkpoint.load_model(step)


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
    source = task.training_part()
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
    lines = [
        slices.curve(model, loss, seed=seed + i, radius=radius, biases_and_norms=biases_and_norms)
        for i in range(DIRECTIONS)
    ]
    w = lines[0].axes[0].tolist()
    mean = torch.stack([line.losses for line in lines]).mean(0).tolist()
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
    each = tuple(tuple(line.losses.tolist()) for line in lines)
    return Curve(tuple(w), tuple(mean), each, None if why else shape, why)


def look(
    at: Reached,
    *,
    samples: int = SAMPLES,
    side: int = slices.SIDE,
    to: Path | None = None,
    radius: float,
    seed: int,
    biases_and_norms: bool,
) -> dict[str, Any]:
    """Everything ``gaf landscape`` shows: curve, shape, surface, and the line to another checkpoint."""
    loss = training_loss(at.task, samples)
    other = None
    if to is not None:
        other, _ = read_checkpoint(to)
        check_state(at.model, other, f"the checkpoint in {to}")
    moves = {"seed": seed, "radius": radius, "biases_and_norms": biases_and_norms}
    near = curve(at.model, loss, start=_untrained(at, loss), **moves)
    plane = slices.surface(at.model, loss, side=side, **moves)
    numbers: dict[str, Any] = {
        "title": at.config.name,
        "checkpoint": str(at.path),
        "step": at.step,
        "samples": min(samples, len(at.task.training_part())),
        "radius": radius,
        "seed": seed,
        "curve": near.record(),
        "surface": {
            "axis": plane.axes[0].tolist(),
            "losses": plane.losses.tolist(),
            "method": plane.method,
        },
        "line": None,
        "said": near.sentence(),
    }
    if other is not None:
        line = slices.between(at.model, loss, other)
        numbers["line"] = {
            "to": str(to),
            "w": line.axes[0].tolist(),
            "losses": line.losses.tolist(),
        }
    return numbers


def _untrained(at: Reached, loss: Loss) -> float:
    """The loss before training: a run that has lost little of it is at no optimum, as in ``gaf tune``."""
    with rng.own_settings(None), torch.no_grad():
        torch.manual_seed(at.config.seed)
        return float(loss(at.task.build_model().eval()))
