"""Interleaved timing: in each repetition every rule runs once, in a random order.

A slow spell of the machine then falls on all rules, and a ratio is taken within a repetition. What is
reported is the median over repetitions with the range from the 10th to the 90th percentile.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

SHORTEST = 0.05  # seconds: a few milliseconds taken by others should not decide
FEWEST = 3  # repetitions before a time budget may end the measurement

Key = TypeVar("Key")


@dataclass(frozen=True)
class Spread:
    """Median, 10th and 90th percentile of n numbers."""

    median: float
    low: float
    high: float
    n: int

    def as_dict(self) -> dict[str, float]:
        return {"median": self.median, "p10": self.low, "p90": self.high, "n": self.n}


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one number.

    Example:
        >>> spread([1.0, 2.0, 3.0, 4.0, 50.0]).median
        3.0
    """
    low = high = values[0]
    if len(values) > 1:
        low, *_, high = statistics.quantiles(values, n=10, method="inclusive")
    return Spread(statistics.median(values), low, high, len(values))


def ratio(mine: Sequence[float], base: Sequence[float]) -> Spread:
    """The spread of mine / base, repetition by repetition.

    Example:
        >>> ratio([2.0, 4.0, 60.0], [1.0, 2.0, 20.0]).median
        2.0
    """
    return spread([a / b for a, b in zip(mine, base, strict=True)])


def collect(
    steps: Mapping[Key, Callable[[], Any]],
    seconds: dict[Key, list[float]],
    *,
    repeats: int,
    budget: float = math.inf,
    shortest: float = SHORTEST,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Fill ``seconds`` with one number for each rule and repetition.

    Interrupted, it leaves only whole repetitions behind: lists of one length, and none of length 0.

    Args:
        steps: what to time.
        seconds: an empty dict, which is filled.
        repeats: how many repetitions.
        budget: seconds after which no further repetition begins, once there are a few.
        shortest: seconds; a quicker step is done several times for one measurement.
        tick: called after each repetition.
    """
    began, shuffle, order = time.perf_counter(), random.Random(0), list(steps)
    seconds.update({key: [] for key in steps})
    try:
        with _no_garbage_collection():
            counts = {key: _warm_up(step, shortest) for key, step in steps.items()}
            for repetition in range(repeats):
                if repetition >= FEWEST and time.perf_counter() - began > budget:
                    break
                shuffle.shuffle(order)
                for key in order:
                    seconds[key].append(_time(steps[key], counts[key]))
                tick()
    finally:
        whole = min(map(len, seconds.values()), default=0)
        for numbers in seconds.values():
            del numbers[whole:]
        if whole == 0:
            seconds.clear()


def _warm_up(step: Callable[[], Any], shortest: float) -> int:
    """Run a step twice; returns how many of it make a measurement long enough."""
    step()
    return max(1, math.ceil(shortest / max(_time(step, 1), 1e-9)))


def _time(step: Callable[[], Any], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - began) / count


@contextmanager
def _no_garbage_collection():
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
