"""Interleaved timing: in each repetition every contender runs once, in a random order.

A slow spell of the machine then falls on all contenders, and a ratio is taken within a repetition. What is
reported is the median over repetitions, with its 95 % confidence interval and with the range from the 10th to
the 90th percentile. Ratios that are judged are repeated until that interval is narrow. Progress goes to
stderr, between measurements only: a thread that redraws a bar would take time from what is timed.
"""

from __future__ import annotations

import gc
import itertools
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
CONFIDENCE = 0.95  # of the interval of a median
PRECISION = (
    0.03  # of a ratio that is judged: half the width of its interval, as a share of the median
)
MOST = 10  # times as many repetitions as asked for, in search of that precision

Key = TypeVar("Key")


@dataclass(frozen=True)
class Spread:
    """Median, 10th and 90th percentile of n numbers, and the interval of the median where there is one.

    Example:
        >>> f"{Spread(1.0, 0.9, 1.25, 5):.2f}"
        '1.00 (0.90 to 1.25)'
        >>> spread([1.0, 1.01, 1.02, 1.03, 1.04, 1.05]).estimate(".2f")
        '1.02 (1.00 to 1.05)'
    """

    median: float
    p10: float
    p90: float
    n: int
    low: float | None = None
    high: float | None = None

    def __format__(self, form: str) -> str:
        return f"{self.median:{form}} ({self.range(form)})"

    def range(self, form: str) -> str:
        """From the 10th to the 90th percentile."""
        return f"{self.p10:{form}} to {self.p90:{form}}"

    def estimate(self, form: str) -> str:
        """The median and its interval."""
        if self.low is None or self.high is None:
            return f"{self.median:{form}} (too few for an interval)"
        return f"{self.median:{form}} ({self.low:{form}} to {self.high:{form}})"

    @property
    def precision(self) -> float:
        """Half the width of the interval, as a share of the median; infinite where there is none."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / (2 * abs(self.median)) if self.median else math.inf

    def times(self, factor: float) -> Spread:
        """The same numbers in another unit."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return Spread(factor * self.median, factor * self.p10, factor * self.p90, self.n, low, high)


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one number.

    Example:
        >>> spread([1.0, 2.0, 3.0, 4.0, 50.0]).median
        3.0
    """
    low = high = values[0]
    if len(values) > 1:
        low, *_, high = statistics.quantiles(values, n=10, method="inclusive")
    ends = median_interval(values) or (None, None)
    return Spread(statistics.median(values), low, high, len(values), *ends)


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % confidence interval of the median, for repetitions that do not depend on one another.

    Its ends are two of the numbers themselves: with k of n numbers cut off at each end it misses the median
    with the probability 2 P(B < k) of a binomial B(n, 1/2). Five numbers are too few for one.

    Example:
        >>> median_interval([3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 7.0, 8.0, 9.0])
        (2.0, 8.0)
        >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
        True
    """
    n, cut, tail = len(values), 0, 0.0
    while 2 * (tail := tail + math.comb(n, cut) / 2**n) <= 1 - CONFIDENCE:
        cut += 1
    if cut == 0:
        return None
    ordered = sorted(values)
    return ordered[cut - 1], ordered[n - cut]


def ratio(mine: Sequence[float], base: Sequence[float]) -> Spread:
    """The spread of mine / base, repetition by repetition, of those that both have taken part in.

    Example:
        >>> ratio([2.0, 4.0, 60.0], [1.0, 2.0, 20.0]).median
        2.0
    """
    return spread([a / b for a, b in zip(mine, base, strict=False)])


def timed(
    console: Console,
    title: str,
    steps: Mapping[Key, Callable[[], Any]],
    seconds: dict[Key, list[float]] | None = None,
    *,
    repeats: int,
    judged: Sequence[tuple[Key, Key]] = (),
    **limits: Any,
) -> dict[Key, list[float]]:
    """:func:`collect` with its progress under a title; what is given as ``seconds`` is filled."""
    seconds = {} if seconds is None else seconds
    with stage(console, title, repeats) as tick:
        collect(steps, seconds, repeats=repeats, judged=judged, tick=tick, **limits)
    return seconds


def collect(
    steps: Mapping[Key, Callable[[], Any]],
    seconds: dict[Key, list[float]],
    *,
    repeats: int,
    judged: Sequence[tuple[Key, Key]] = (),
    precision: float = PRECISION,
    budget: float = math.inf,
    shortest: float = SHORTEST,
    tick: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Fill ``seconds`` with one number for each contender and repetition.

    Interrupted, it leaves only whole repetitions behind, and no list of length 0.

    Args:
        steps: what to time.
        seconds: an empty dict, which is filled.
        repeats: how many repetitions.
        judged: pairs of contenders, (mine, base). Those whose ratio is not precise then go on, up to
            ``MOST`` times as many repetitions; the others rest. With too few repetitions for an interval
            none goes on.
        precision: of those ratios, half the width of the interval as a share of the median.
        budget: seconds after which no further repetition begins, once there are a few.
        shortest: seconds; a quicker step is done several times for one measurement.
        tick: called after each repetition.
        clock: what measures, in seconds.
    """
    began, shuffle, whole = time.perf_counter(), random.Random(0), 0
    seconds.update({key: [] for key in steps})
    try:
        with _no_garbage_collection():
            counts = {key: _warm_up(step, shortest, clock) for key, step in steps.items()}
            order = list(steps)
            for whole in itertools.count():
                if whole >= repeats:
                    order = _imprecise(seconds, judged, precision) if whole < MOST * repeats else []
                if not order or (whole >= FEWEST and time.perf_counter() - began > budget):
                    break
                shuffle.shuffle(order)
                for key in order:
                    seconds[key].append(_time(steps[key], counts[key], clock))
                tick()
    finally:
        for numbers in seconds.values():
            del numbers[whole:]
        if whole == 0:
            seconds.clear()


def _imprecise(
    seconds: Mapping[Key, list[float]], judged: Sequence[tuple[Key, Key]], precision: float
) -> list[Key]:
    """The contenders of ratios whose interval is too wide still."""
    wide: dict[Key, None] = {}
    for mine, base in judged:
        over = ratio(seconds[mine], seconds[base])
        if precision < over.precision < math.inf:
            wide |= dict.fromkeys((mine, base))
    return list(wide)


def _warm_up(step: Callable[[], Any], shortest: float, clock: Callable[[], float]) -> int:
    """Run a step twice; returns how many of it make a measurement long enough."""
    step()
    return max(1, math.ceil(shortest / max(_time(step, 1, clock), 1e-9)))


def _time(step: Callable[[], Any], count: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(count):
        step()
    return (clock() - began) / count


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
                more = f" of {total}" if done < total else ""
                text = f"{title}: {done:.0f}{more} in {seconds:.0f} s"
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
