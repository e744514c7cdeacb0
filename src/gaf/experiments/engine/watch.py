"""What f sees in a step, for the records: the figures of :class:`gaf.Monitor`, over all processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed.tensor import DTensor

import gaf
from gaf.experiments.engine.distributed import everyones
from gaf.experiments.engine.state import Run

SHARES = ("linear", "enlarged", "restrained", "saturated")  # of the elements that are not 0


@contextmanager
def watching(run: Run) -> Iterator[None]:
    """Record what f sees in the step inside, every so often."""
    every = run.config.monitor_every if run.config.optimizer.activation else 0
    if not every or run.state.step % every:
        yield
        return
    optimizer = run.optimizer.optimizer
    monitor = gaf.Monitor(optimizer, quantiles=(), histogram=True)
    try:
        yield
    finally:
        monitor.detach()
    mine = list(monitor.latest.values())
    sharded = any(
        isinstance(p, DTensor) for group in optimizer.param_groups for p in group["params"]
    )
    processes = everyones(run.fabric, mine) if sharded else [mine]
    for records in zip(*processes, strict=True):
        run.write("gradients", run.state.step + 1, together(records))


def together(records: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """The figures of one group whose elements lie on several processes.

    Example:
        >>> half = dict(group=0, max=1.0, elements=10, zeros=0, nonfinite=0, linear=1.0, enlarged=1.0)
        >>> half |= dict(restrained=0.0, saturated=0.0, histogram={"-3": 1.0})
        >>> together((half, {**half, "max": 2.0, "zeros": 10, "linear": 0.0}))["linear"]
        1.0
    """
    alive = [each["elements"] - each["zeros"] - each["nonfinite"] for each in records]
    total = max(1, sum(alive))
    edges = {edge for each in records for edge in each["histogram"]}

    def share(edge: str) -> float:
        parts = (each["histogram"].get(edge, 0.0) for each in records)
        return sum(n * part for n, part in zip(alive, parts, strict=True)) / total

    return {
        "group": records[0]["group"],
        "max": max(each["max"] for each in records),
        "nonfinite": sum(each["nonfinite"] for each in records),
        **{
            name: sum(n * each[name] for n, each in zip(alive, records, strict=True)) / total
            for name in SHARES
        },
        "histogram": {edge: float(f"{share(edge):.4g}") for edge in sorted(edges, key=float)},
    }
