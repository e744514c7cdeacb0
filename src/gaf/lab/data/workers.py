"""Worker processes that a signal to the whole group does not kill.

Ctrl-C, and what a scheduler sends before it takes a machine away, reach every process of the group. The
training answers by saving, and must not find its workers dead. So a worker leaves the group; until it has,
the two signals are held back from it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TypeVar

from torch.utils.data import DataLoader

Batch = TypeVar("Batch")

HELD = {signal.SIGINT, signal.SIGTERM}
_CAN = hasattr(os, "setpgid") and hasattr(signal, "pthread_sigmask")  # not on Windows


def begin(worker: int) -> None:
    """The first thing a worker does (``worker_init_fn``)."""
    if not _CAN:
        return
    os.setpgid(0, 0)
    while signal.sigpending() & HELD:  # it came before the worker had left the group
        signal.sigwait(HELD)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def start(loader: DataLoader[Batch]) -> Iterator[Batch]:
    """Start the workers; they inherit that the signals are held back."""
    if not _CAN:
        return iter(loader)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        return iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
