"""Where and with what a benchmark ran. No host name, no path."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import gaf
from gaf.kernels import native
from gaf.lab.engine.identity import cpu_model, git_revision


def facts() -> dict[str, Any]:
    """Machine, date and versions."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "date": now.isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "ram_gib": _ram_gib(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gaf": gaf.__version__,
        "git": git_revision(Path.cwd()),
        "kernels": native.build(),
    }


def line(about: Mapping[str, Any]) -> str:
    """The facts that stand above a table."""
    return "{cpu}, {cores} cores, {threads} threads, torch {torch}, {date}\n".format(**about)


# Ends with the process that started it, however that ends.
_COMPUTING = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(10**5))"


@contextmanager
def company(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many other processes compute meanwhile."""
    command = [sys.executable, "-c", _COMPUTING, str(os.getpid())]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


class Others:
    """What other processes, and other guests of the host, take of the processors from here on."""

    def __init__(self) -> None:
        self._began = self._used()

    def share(self) -> float | None:
        """Between 0 and 1, or None where the system does not tell."""
        if self._began is None or (now := self._used()) is None:
            return None
        passed, busy, own = (after - before for before, after in zip(self._began, now, strict=True))
        return round(min(max((busy - own) / passed, 0.0), 1.0), 3) if passed > 0 else None

    @staticmethod
    def _used() -> tuple[float, float, float] | None:
        """Seconds of all processors since the start of the system: in all, at work, at work for us."""
        try:
            first = Path("/proc/stat").read_text("ascii").splitlines()[0]
            user, nice, system, idle, wait, *rest = map(
                int, first.split()[1:9]
            )  # rest: irqs, steal
            tick = os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, AttributeError):
            return None
        busy = user + nice + system + sum(rest)
        own = os.times()
        mine = (
            own.user + own.system + own.children_user + own.children_system
        )  # workers, once ended
        return (busy + idle + wait) / tick, busy / tick, mine


def label(about: dict[str, Any]) -> str:
    """Date and machine as the stem of a file name.

    Example:
        >>> label({"date": "2026-01-02T03:04:05", "cpu": "Intel(R) Xeon(R) CPU @ 2.80GHz", "cores": 2})
        '2026-01-02-intel-xeon-2.80ghz-2-cores'
    """
    cpu = re.sub(r"\((R|TM)\)|\b(CPU|Processor)\b|@", " ", about["cpu"], flags=re.IGNORECASE)
    words = re.findall(r"[a-z0-9.]+", cpu.lower())
    return "-".join([about["date"][:10], *words, str(about["cores"]), "cores"])


def _ram_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
