"""Ends a script's processes once whoever started them is gone, in whatever way: ``python -I -S reaper.py``.

It reads a line, the number of the process group and the script's ``GAF_TRIAL``, and waits for the end of its
input. Then what is left of the script is ended. The standard library alone, so that it starts in 20 ms.

A launcher gives its processes groups of their own; on Linux these are known by ``GAF_TRIAL`` in their
environment, elsewhere a launcher that is sent SIGTERM ends them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

PATIENCE = 5.0  # seconds between SIGTERM and SIGKILL
LOOK = 0.02


def processes(trial: str) -> list[int]:
    """Those whose environment names this trial; none where the system does not say."""
    named = b"\0" + f"GAF_TRIAL={trial}".encode() + b"\0"
    pids = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environ:
            if named in b"\0" + environ.read() + b"\0":  # a zombie has none
                pids.append(int(name))
    return pids


def send(number: int, group: int | None, trial: str) -> bool:
    """A signal to all of them; whether there was anybody. Number 0 only looks."""
    reached = False
    if group is not None and hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
            reached = True
    for pid in processes(trial):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            reached = True
    return reached


def end(group: int | None, trial: str, patience: float = PATIENCE) -> None:
    """Ask them to go, wait, and kill what is left."""
    until = time.monotonic() + patience
    there = send(signal.SIGTERM, group, trial)
    while there and time.monotonic() < until:
        time.sleep(LOOK)
        there = send(0, group, trial)
    if there:
        send(getattr(signal, "SIGKILL", signal.SIGTERM), group, trial)


def main() -> None:
    """Wait for the end of the input."""
    group, _, trial = sys.stdin.readline().rstrip("\n").partition(" ")
    sys.stdin.read()
    if group:
        end(int(group), trial)


if __name__ == "__main__":
    main()
