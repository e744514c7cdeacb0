"""Runs side by side against runs one after the other: what ``gaf compare`` gains from a machine's cores.

Each repetition trains the same few runs three times, in random order: one after the other with one thread,
side by side with one thread each, and one after the other with all threads. The processes are started
beforehand and serve all repetitions, as they do in a comparison.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console, Group

from gaf.lab.bench import machine
from gaf.lab.bench.targets import verdict
from gaf.lab.bench.timing import Spread, ratio, sheet, spread, timed

LIMIT = 1.7  # times as fast as one after the other, on 2 cores
RUNS_A_CORE = 2
EPOCHS = 4
ALONE, BESIDE, THREADED = (
    "one after the other, one thread",
    "side by side, one thread each",
    "one after the other, all threads",
)


def measure(repeats: int, console: Console) -> dict[str, Any]:
    """Seconds for the same runs in the three ways."""
    from gaf.lab.engine.config import override
    from gaf.lab.study import recipes
    from gaf.lab.study.grid import run_grid
    from gaf.lab.study.pool import LOG, Pool, cores

    count = cores()
    base = override(recipes.get("digits-cnn-sgdm"), [f"epochs={EPOCHS}", "accelerator=cpu"])
    others = machine.Others()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        one, many = (stack.enter_context(Pool(n, root / LOG)) for n in (1, count))
        began = 0

        def runs(pool: Pool, threads: int) -> Callable[[], object]:
            configs = [
                base.model_copy(update={"seed": seed, "threads": threads})
                for seed in range(RUNS_A_CORE * count)
            ]

            def all_of_them() -> None:
                nonlocal began
                began += 1
                run_grid(configs, root / str(began), pool)

            return all_of_them

        ways = {ALONE: runs(one, 1), BESIDE: runs(many, 1), THREADED: runs(one, count)}
        seconds = timed(console, "runs side by side", ways, repeats=repeats, shortest=0.0)
    return {
        **machine.facts(),
        "runs": RUNS_A_CORE * count,
        "cores": count,
        "limit": LIMIT,
        "others": others.share(),
        "ways": {
            name: {
                "seconds": asdict(spread(times)),
                "speed": asdict(ratio(seconds[ALONE], times)),
            }
            for name, times in seconds.items()
        },
    }


def table(record: Mapping[str, Any]) -> Group:
    """What was measured, for people."""
    rows, repeats = [], 0
    for name, way in record["ways"].items():
        speed = Spread(**way["speed"])
        judged = (f"{LIMIT:.1f}", verdict(speed.median >= LIMIT, record["others"]))
        cells = judged if name == BESIDE else ("", "")
        rows.append((name, f"{way['seconds']['median']:.2f}", f"{speed:.2f}", *cells))
        repeats = speed.n
    shown = sheet(
        f"{record['runs']} runs of a small CNN on {record['cores']} cores",
        ("way", "seconds", "times as fast", "at least", "verdict"),
        rows,
        caption=f"medians of {repeats} interleaved repetitions (10 % to 90 %)",
    )
    return Group(machine.line(record), shown)
