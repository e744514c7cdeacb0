"""What f sees in a step, for the records: the figures of :class:`gaf.Monitor`, over all processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.distributed.tensor import DTensor

import gaf
from gaf.lab.engine.distributed import everyones
from gaf.lab.engine.state import Run
from gaf.optim.sharding import together


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
