"""A bound on the memory that a test may take: what a hostile file must not make anyone allocate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEGABYTE = 1 << 20
STATM = Path("/proc/self/statm")


@contextmanager
def at_most(more: int) -> Iterator[None]:
    """Within, the process gets at most ``more`` bytes of addresses beside its own, then a MemoryError."""
    resource = pytest.importorskip("resource")
    if not STATM.exists():
        pytest.skip("needs Linux: it says there how much memory a process has")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(STATM.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
