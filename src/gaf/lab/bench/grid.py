"""Runs side by side against runs one after the other: what ``gaf compare`` gains from a machine's cores.

Each repetition trains the same few runs three times, in random order: one after the other with one thread,
side by side with one thread each, and one after the other with all threads. The processes are started
beforehand and serve all repetitions, as they do in a comparison.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table

from gaf.lab.bench import machine
from gaf.lab.bench.progress import stage
from gaf.lab.bench.timing import collect, ratio, spread

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
    seconds: dict[str, list[float]] = {}
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
        with stage(console, "runs side by side", repeats) as tick:
            collect(ways, seconds, repeats=repeats, shortest=0.0, tick=tick)
    return {
        **machine.facts(),
        "runs": RUNS_A_CORE * count,
        "cores": count,
        "limit": LIMIT,
        "others": others.share(),
        "ways": {
            name: {
                "seconds": spread(times).as_dict(),
                "speed": ratio(seconds[ALONE], times).as_dict(),
            }
            for name, times in seconds.items()
        },
    }


def table(found: Mapping[str, Any]) -> Group:
    """What was measured, for people."""
    repeats = found["ways"][ALONE]["speed"]["n"]
    shown = Table(
        title=f"{found['runs']} runs of a small CNN on {found['cores']} cores",
        caption=f"medians of {repeats} interleaved repetitions (10 % to 90 %)",
    )
    for column in ("way", "seconds", "times as fast", "at least", "verdict"):
        shown.add_column(column, justify="left" if column == "way" else "right", no_wrap=True)
    for name, way in found["ways"].items():
        speed, limit, verdict = way["speed"], "", ""
        if name == BESIDE:
            limit = f"{LIMIT:.1f}"
            verdict = "reached" if speed["median"] >= LIMIT else "not reached"
            if (found["others"] or 0.0) > 0.05:
                verdict += f" (others took {found['others']:.0%} of the processors)"
        shown.add_row(
            name,
            f"{way['seconds']['median']:.2f}",
            f"{speed['median']:.2f} ({speed['p10']:.2f} to {speed['p90']:.2f})",
            limit,
            verdict,
        )
    return Group(machine.line(found), shown)
