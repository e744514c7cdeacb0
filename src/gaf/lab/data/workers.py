"""Worker processes that read images ahead of a training, and that a signal to the group does not kill.

Ctrl-C, and what a scheduler sends before it takes a machine away, reach every process of the group. The
training answers by saving, and must not find its workers dead. So a worker leaves the group; until it has,
the two signals are held back from it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from typing import TypeVar

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

Batch = TypeVar("Batch")

HELD = {signal.SIGINT, signal.SIGTERM}
_CAN = hasattr(os, "setpgid") and hasattr(signal, "pthread_sigmask")  # not on Windows


def read_ahead(
    reader: Dataset[Batch], indices: Sequence[Tensor], processes: int, *, pin: bool = False
) -> Iterator[Batch]:
    """What a reader gives for each tensor of indices, read by so many processes; 0: by this one."""
    from gaf.lab.data import photos  # noqa: F401 - without Pillow this fails here, not in a worker

    loader: DataLoader[Batch] = DataLoader(
        reader,
        sampler=[each.tolist() for each in indices],
        batch_size=None,
        num_workers=min(processes, len(indices)),
        collate_fn=_as_it_is,
        pin_memory=pin,
        worker_init_fn=_begin,
    )
    return _start(loader)


def _as_it_is(batch: Batch) -> Batch:
    return batch


def _begin(worker: int) -> None:
    """The first thing a worker does (``worker_init_fn``)."""
    if not _CAN:
        return
    os.setpgid(0, 0)
    while signal.sigpending() & HELD:  # it came before the worker had left the group
        signal.sigwait(HELD)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def _start(loader: DataLoader[Batch]) -> Iterator[Batch]:
    """Start the workers; they inherit that the signals are held back."""
    if not _CAN:
        return iter(loader)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        return iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
