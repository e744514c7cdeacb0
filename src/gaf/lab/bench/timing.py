"""Interleaved timing: in each repetition every contender runs once, in a random order.

A slow spell of the machine then falls on all contenders, and a ratio is taken within a repetition. What is
reported is the median over repetitions with the range from the 10th to the 90th percentile. Progress goes to
stderr, between measurements only: a thread that redraws a bar would take time from what is timed.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeElapsedColumn
from rich.table import Table

from gaf.lab.engine.progress import bar

SHORTEST = 0.05  # seconds: a few milliseconds taken by others should not decide
FEWEST = 3  # repetitions before a time budget may end the measurement

Key = TypeVar("Key")


@dataclass(frozen=True)
class Spread:
    """Median, 10th and 90th percentile of n numbers.

    Example:
        >>> f"{Spread(1.0, 0.9, 1.25, 5):.2f}"
        '1.00 (0.90 to 1.25)'
    """

    median: float
    p10: float
    p90: float
    n: int

    def __format__(self, form: str) -> str:
        return f"{self.median:{form}} ({self.range(form)})"

    def range(self, form: str) -> str:
        """From the 10th to the 90th percentile."""
        return f"{self.p10:{form}} to {self.p90:{form}}"

    def times(self, factor: float) -> Spread:
        """The same numbers in another unit."""
        return Spread(factor * self.median, factor * self.p10, factor * self.p90, self.n)


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


def timed(
    console: Console,
    title: str,
    steps: Mapping[Key, Callable[[], Any]],
    seconds: dict[Key, list[float]] | None = None,
    *,
    repeats: int,
    **limits: float,
) -> dict[Key, list[float]]:
    """:func:`collect` with its progress under a title; what is given as ``seconds`` is filled."""
    seconds = {} if seconds is None else seconds
    with stage(console, title, repeats) as tick:
        collect(steps, seconds, repeats=repeats, tick=tick, **limits)
    return seconds


def collect(
    steps: Mapping[Key, Callable[[], Any]],
    seconds: dict[Key, list[float]],
    *,
    repeats: int,
    budget: float = math.inf,
    shortest: float = SHORTEST,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Fill ``seconds`` with one number for each contender and repetition.

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


@contextmanager
def stage(console: Console, title: str, total: int) -> Iterator[Callable[[], None]]:
    """Announce a stage of ``total`` repetitions; yields what to call after each.

    A bar on a terminal, plain lines elsewhere.
    """
    began, plain = time.perf_counter(), not console.is_terminal
    columns = (MofNCompleteColumn(), TimeElapsedColumn())
    if plain:
        console.print(f"{title} ...", highlight=False)
    with bar(console, *columns, auto_refresh=False, disable=plain) as shown:
        task = shown.add_task(title, total=total)
        shown.refresh()
        try:
            yield lambda: shown.update(task, advance=1, refresh=True)
        finally:
            if plain:
                done, seconds = shown.tasks[0].completed, time.perf_counter() - began
                text = f"{title}: {done:.0f} of {total} in {seconds:.0f} s"
                console.print(text, highlight=False)


def sheet(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    caption: str | None = None,
    left: int = 1,
) -> Table:
    """A table whose first columns hold names and whose others hold numbers."""
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for number, column in enumerate(columns):
        justify = "left" if number < left else "right"
        table.add_column(column, justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
