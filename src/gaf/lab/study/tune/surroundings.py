"""Everything ``gaf landscape`` shows of a checkpoint: curve, shape, surface, and the line to another one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from gaf.lab.engine import rng
from gaf.lab.landscape import slices
from gaf.lab.landscape.slices import check_state
from gaf.lab.study.tune.optimum import SAMPLES, Loss, Reached, curve, read_checkpoint, training_loss


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
    """The numbers, under their names."""
    loss = training_loss(at.task, samples)
    other = None
    if to is not None:
        other, _ = read_checkpoint(to)
        check_state(at.model, other, f"the checkpoint in {to}")
    moves = {"seed": seed, "radius": radius, "biases_and_norms": biases_and_norms}
    near = curve(at.model, loss, start=_untrained(at, loss), **moves)
    plane = slices.surface(at.model, loss, side=side, **moves)
    found: dict[str, Any] = {
        "title": at.config.name,
        "checkpoint": str(at.path),
        "step": at.step,
        "samples": min(samples, len(at.task.train_source())),
        "radius": radius,
        "seed": seed,
        "curve": {
            "w": list(near.w),
            "losses": list(near.losses),
            "each": [list(each) for each in near.each],
            "shape": asdict(near.shape) if near.shape else None,
            "why": near.why,
        },
        "surface": {
            "axis": plane.axes[0].tolist(),
            "losses": plane.losses.tolist(),
            "method": plane.method,
        },
        "line": None,
        "said": said(near.shape, near.why),
    }
    if other is not None:
        line = slices.between(at.model, loss, other)
        found["line"] = {"to": str(to), "w": line.axes[0].tolist(), "losses": line.losses.tolist()}
    return found


def _untrained(at: Reached, loss: Loss) -> float:
    """The loss before training: a run that has lost little of it is at no optimum, as in ``gaf tune``."""
    with rng.own_settings(None), torch.no_grad():
        torch.manual_seed(at.config.seed)
        return float(loss(at.task.build_model().eval()))


def said(shape: Any, why: str) -> str:
    """The shape in a sentence."""
    if shape is None:
        return f"{why[0].upper()}{why[1:]}."
    low, high = shape.large
    where = f" Steeper than the nearest quadratic for |w| from {low:.2g} to {high:.2g}."
    return (
        f"Near the optimum the loss goes with |w|^{shape.power:.2f} ± {shape.error:.2f}: {shape.type}, "
        f"confidence {shape.confidence:.2f}.{where if high > low else ''}"
    )
