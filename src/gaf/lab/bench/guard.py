"""What gaf.Guard costs: a fused step with a guard, beside the same without, and beside clipping by norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from rich.console import Console, Group
from torch.nn.utils import get_total_norm

import gaf
from gaf.lab.bench import machine
from gaf.lab.bench.contenders import CLIPS, Model, Step, step_of
from gaf.lab.bench.shapes import SHAPES
from gaf.lab.bench.timing import Spread, ratio, sheet, spread, timed

ON = ("resnet50", "tiny")
OPTIMIZERS = ("SGD", "AdamW")
# A guard that computes the norm; one that is given it, as where gradients are clipped; clipping itself.
WHO = ("guard", "guard, norm known", "clip_grad_norm_")


def measure(repeats: int, console: Console) -> dict[str, Any]:
    """Seconds of torch's fused steps on the shapes of a large network and on many tiny tensors."""
    others, shapes = machine.Others(), {}
    for name in ON:
        model = Model(SHAPES[name])
        steps: dict[tuple[str, str], Step] = {}
        for optimizer in OPTIMIZERS:
            steps |= {(optimizer, who): step for who, step in contenders(optimizer, model).items()}
        pairs = [
            ((optimizer, who), (optimizer, "alone")) for optimizer in OPTIMIZERS for who in WHO
        ]
        seconds = timed(console, SHAPES[name].label, steps, repeats=repeats, judged=pairs)
        shapes[name] = {}
        for optimizer in OPTIMIZERS:
            alone = seconds[optimizer, "alone"]
            figures = {"alone": asdict(spread(alone))}
            figures |= {who: asdict(ratio(seconds[optimizer, who], alone)) for who in WHO}
            shapes[name][optimizer] = figures
    return {**machine.facts(), "others": others.share(), "shapes": shapes}


def contenders(optimizer: str, model: Model) -> dict[str, Step]:
    """torch's fused step by itself, and with what is judged."""
    alone, first, second = (step_of(torch.optim, optimizer, model, "fused") for _ in range(3))
    computing, given = first.__self__, second.__self__  # type: ignore[attr-defined]
    gaf.Guard(computing)
    guard, norm = gaf.Guard(given), get_total_norm(model.grads)

    def with_norm() -> None:
        guard.observe(norm)
        given.step()

    def clipped() -> None:
        CLIPS["clip_grad_norm_"](model.params)
        alone()

    steps = (alone, lambda: computing.step(), with_norm, clipped)
    return dict(zip(("alone", *WHO), steps, strict=True))


def table(record: Mapping[str, Any]) -> Group:
    """What was measured, for people."""
    rows, repeats = [], []
    for name, optimizers in record["shapes"].items():
        for optimizer, figures in optimizers.items():
            alone = f"{1e3 * figures['alone']['median']:.2f}"
            ratios = (Spread(**figures[who]).estimate(".2f") for who in WHO)
            rows.append((SHAPES[name].label, optimizer, alone, *ratios))
            repeats.append(figures["alone"]["n"])
    taken = "" if record["others"] is None else f"; others took {record['others']:.0%}"
    shown = sheet(
        "torch's fused steps, ms, and times as long (95 % interval)",
        ("tensors", "optimizer", "alone", *WHO),
        rows,
        caption=f"medians of {min(repeats)} to {max(repeats)} interleaved repetitions{taken}",
        left=2,
    )
    return Group(machine.line(record), shown)
