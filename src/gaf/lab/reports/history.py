"""What the runs of a comparison recorded: losses, test scores, what f saw; and their means over seeds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gaf.common.errors import GafError
from gaf.common.files import read_json
from gaf.lab.engine import record
from gaf.lab.engine.folder import CONFIG
from gaf.lab.study.results import Comparison

POINTS = 400  # of a curve on the page; more cannot be told apart

Curve = dict[int, float]  # from step to figure
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class RunHistory:
    """One run."""

    seed: int
    loss: Curve  # mean training loss since the record before
    score: Curve  # on the test set or the validation data
    gradients: tuple[dict[str, Any], ...]  # what f saw
    diverged: int | None  # at which step
    activation: str | None


@dataclass(frozen=True)
class Band:
    """Runs over several seeds."""

    steps: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


def histories(comparison: Comparison, folder: Path) -> dict[str, list[RunHistory]]:
    """By setting, the runs whose records are there.

    Args:
        comparison: names the run folders.
        folder: the comparison's, from which they are seen.
    """
    runs: dict[str, list[RunHistory]] = {row.setting: [] for row in comparison.rows}
    for run in comparison.runs:
        place = folder / run.folder
        at_best = run.rate is None  # those at the second best rate have no curves on the page
        if at_best and run.setting in runs and (place / record.METRICS).is_file():
            runs[run.setting].append(read(place, run.seed, comparison.score_name))
    return runs


def read(folder: Path, seed: int, score_name: str) -> RunHistory:
    """The records of a run; GafError says in one sentence which file is damaged."""
    loss, score, seen, diverged = {}, {}, [], None
    for entry in record.read(folder):
        kind, step = entry["kind"], entry["step"]
        if kind == "train":
            loss[step] = entry["loss"]
        elif kind in record.SCORED and score_name in entry:
            score[step] = entry[score_name]
        elif kind == "gradients":
            seen.append(entry)
        elif kind == "diverged":
            diverged = step
    return RunHistory(seed, loss, score, tuple(seen), diverged, _activation(folder))


def _activation(folder: Path) -> str | None:
    """As text: a function of the user's own may not be registered here."""
    try:
        activation = read_json(folder / CONFIG)["optimizer"]["activation"]
    except (GafError, KeyError, TypeError):
        return None
    return activation if isinstance(activation, str) else None


def band(curves: Iterable[Curve]) -> Band:
    """At each step the mean, the lowest and the highest of the curves that reach it; inf and NaN left out.

    Example:
        >>> band([{1: 2.0, 2: 4.0}, {1: 4.0}]).mean
        [3.0, 4.0]
    """
    at: dict[int, list[float]] = defaultdict(list)
    for curve in curves:
        for step, value in curve.items():
            if math.isfinite(value):
                at[step].append(value)
    steps = thin(sorted(at))
    values = [at[step] for step in steps]
    means = [sum(some) / len(some) for some in values]  # inf where the sum is beyond a float
    return Band(steps, means, [*map(min, values)], [*map(max, values)])


def thin(entries: Sequence[Entry], most: int = POINTS) -> list[Entry]:
    """At most so many of the entries, evenly, with the first and the last.

    Example:
        >>> thin(range(100), 4)
        [0, 33, 66, 99]
    """
    if len(entries) <= most:
        return list(entries)
    return [entries[round(i * (len(entries) - 1) / (most - 1))] for i in range(most)]
