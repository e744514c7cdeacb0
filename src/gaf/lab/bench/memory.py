"""Peak extra memory of a step: what torch's CPU allocator hands out while it runs. And what is free."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from gaf.lab.bench.shapes import Shapes

HELD = 28  # bytes for a parameter: w, g, two of state and up to three intermediate lists, in fp32


@dataclass(frozen=True)
class Allocations:
    """Bytes: the most that was held at once, and the largest single allocation."""

    peak: int
    largest: int


def allocations(step: Callable[[], Any]) -> Allocations:
    """Run a step under torch's profiler, and read its record of allocations.

    Example:
        >>> import torch
        >>> x = torch.ones(1000)
        >>> allocations(lambda: x + 1).largest
        4000
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler's own log goes to stderr
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # allocations are the same, and a busy machine slows it less
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
            step()
    finally:
        torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        run.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    memory_events = [event for event in events if event.get("name") == "[memory]"]
    held = peak = largest = 0
    for event in sorted(memory_events, key=lambda event: (event["ts"], event["args"]["Ev Idx"])):
        change = event["args"]["Bytes"]  # negative where memory is freed
        held += change
        peak, largest = max(peak, held), max(largest, change)
    return Allocations(peak, largest)


def settle_allocator() -> None:
    """Bring malloc into the state that it has in any training after a while.

    Until a block as large has been freed, glibc asks the system for each large block anew, and every page of
    it costs a fault: intermediate tensors of a few megabytes would take up to twice as long.
    """
    torch.empty(32 * 2**20 - 2**16, dtype=torch.uint8)  # freed at once; it adapts up to 32 MiB


def working_space(f: Callable[[torch.Tensor], torch.Tensor], largest: torch.Tensor) -> int:
    """Bytes that f needs on the largest tensor besides its result."""
    return allocations(lambda: f(largest)).peak - largest.numel() * largest.element_size()


def free_memory() -> int | None:
    """Bytes of memory that are free, or None where the system does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def fits(shapes: Shapes, available: int | None) -> bool:
    """Whether all that a benchmark of these tensors holds fits into so many bytes.

    Example:
        >>> from gaf.lab.bench.shapes import flat
        >>> fits(flat(1), 10**9), fits(flat(200), 10**9), fits(flat(200), None)
        (True, False, True)
    """
    return available is None or HELD * shapes.parameters <= available
