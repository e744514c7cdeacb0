"""What gaf.Auto costs: a fused step whose alpha and beta it sets, beside the same step with fixed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rich.console import Console, Group
from rich.table import Table

import gaf
from gaf.lab.bench import machine
from gaf.lab.bench.contenders import ALPHA, BETA, Model, step_of
from gaf.lab.bench.progress import stage
from gaf.lab.bench.shapes import SHAPES
from gaf.lab.bench.timing import collect, ratio, spread

ON = ("resnet50", "tiny")
FIXED = f"arctan({ALPHA}, {BETA})"
PLACEMENTS = ("gradient", "momentum")  # Auto's default, and one where it follows the velocity too


def measure(repeats: int, console: Console) -> dict[str, Any]:
    """Seconds of fused SGD steps on the shapes of a large network and on many tiny tensors."""
    others, found = machine.Others(), {}
    for name in ON:
        model = Model(SHAPES[name])
        steps = {
            f"{activation} {place}": step_of(
                gaf, "SGD", model, "fused", activation=activation, placement=place
            )
            for place in PLACEMENTS
            for activation in (FIXED, gaf.Auto.name)
        }
        steps["torch"] = step_of(torch.optim, "SGD", model, "fused")
        seconds: dict[str, list[float]] = {}
        with stage(console, SHAPES[name].label, repeats) as tick:
            collect(steps, seconds, repeats=repeats, tick=tick)
        found[name] = {
            place: {
                "torch": spread(seconds["torch"]).as_dict(),
                "fixed": spread(seconds[f"{FIXED} {place}"]).as_dict(),
                "auto": spread(seconds[f"{gaf.Auto.name} {place}"]).as_dict(),
                "ratio": ratio(
                    seconds[f"{gaf.Auto.name} {place}"], seconds[f"{FIXED} {place}"]
                ).as_dict(),
            }
            for place in PLACEMENTS
        }
    return {**machine.facts(), "others": others.share(), "shapes": found}


def table(found: Mapping[str, Any]) -> Group:
    """What was measured, for people."""
    n = next(iter(found["shapes"].values()))[PLACEMENTS[0]]["ratio"]["n"]
    taken = "" if found["others"] is None else f"; others took {found['others']:.0%}"
    shown = Table(
        title="fused SGD steps, ms", caption=f"medians of {n} interleaved repetitions{taken}"
    )
    columns = ("tensors", "placement", "torch", FIXED, "auto", "auto / fixed (10 % to 90 %)")
    for column in columns:
        left = column in columns[:2]
        shown.add_column(column, justify="left" if left else "right", no_wrap=True)
    for name, places in found["shapes"].items():
        for place, each in places.items():
            times = (f"{1e3 * each[who]['median']:.2f}" for who in ("torch", "fixed", "auto"))
            over = each["ratio"]
            spread_ = f"{over['median']:.2f} ({over['p10']:.2f} to {over['p90']:.2f})"
            shown.add_row(SHAPES[name].label, place, *times, spread_)
    return Group(machine.line(found), shown)
