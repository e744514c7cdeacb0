"""What gaf.Auto costs: a fused step whose alpha and beta it sets, beside the same step with fixed ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from rich.console import Console, Group

import gaf
from gaf.lab.bench import machine
from gaf.lab.bench.contenders import ALPHA, BETA, Model, Step, step_of
from gaf.lab.bench.shapes import SHAPES
from gaf.lab.bench.timing import Spread, ratio, sheet, spread, timed

ON = ("resnet50", "tiny")
FIXED = f"arctan({ALPHA}, {BETA})"
PLACEMENTS = ("gradient", "momentum")  # Auto's default, and one where it follows the velocity too


def measure(repeats: int, console: Console) -> dict[str, Any]:
    """Seconds of fused SGD steps on the shapes of a large network and on many tiny tensors."""
    others, shapes = machine.Others(), {}
    for name in ON:
        model = Model(SHAPES[name])
        steps: dict[tuple[str, str], Step] = {
            (activation, place): step_of(
                gaf, "SGD", model, "fused", activation=activation, placement=place
            )
            for place in PLACEMENTS
            for activation in (FIXED, gaf.Auto.name)
        }
        steps["torch", ""] = step_of(torch.optim, "SGD", model, "fused")
        pairs = [((gaf.Auto.name, place), (FIXED, place)) for place in PLACEMENTS]
        seconds = timed(console, SHAPES[name].label, steps, repeats=repeats, judged=pairs)
        shapes[name] = {}
        for place in PLACEMENTS:
            fixed, auto = (seconds[f, place] for f in (FIXED, gaf.Auto.name))
            spreads = {"torch": spread(seconds["torch", ""]), "fixed": spread(fixed)}
            spreads |= {"auto": spread(auto), "ratio": ratio(auto, fixed)}
            shapes[name][place] = {who: asdict(figures) for who, figures in spreads.items()}
    return {**machine.facts(), "others": others.share(), "shapes": shapes}


def table(record: Mapping[str, Any]) -> Group:
    """What was measured, for people."""
    rows = []
    for name, places in record["shapes"].items():
        for place, figures in places.items():
            times = (f"{1e3 * figures[who]['median']:.2f}" for who in ("torch", "fixed", "auto"))
            over = Spread(**figures["ratio"])
            rows.append((SHAPES[name].label, place, *times, over.estimate(".2f"), str(over.n)))
    taken = "" if record["others"] is None else f"; others took {record['others']:.0%}"
    shown = sheet(
        "fused SGD steps, ms",
        ("tensors", "placement", "torch", FIXED, "auto", "auto / fixed (95 % interval)", "of"),
        rows,
        caption=f"medians of so many interleaved repetitions{taken}",
        left=2,
    )
    return Group(machine.line(record), shown)
