"""Trainings in processes of their own, to be killed."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import forked
from tests.forked import ENVIRONMENT, Forked
from tests.lab.engine.tiny import KIND


def arguments(folder: Path, *changes: str, options: dict[str, object] | None = None) -> list[str]:
    """Of `gaf train` on the tiny task."""
    chosen = [f"task.options.{key}={value}" for key, value in (options or {}).items()]
    sets = [
        *("threads=1", "accelerator=cpu", "checkpoint_every=5", "log_every=3", "monitor_every=4"),
        *("optimizer.activation=arctan(0.1, 20)", *chosen, *changes),
    ]
    return [
        *("train", "--task", KIND, "--out", str(folder)),
        *(part for each in sets for part in ("--set", each)),
    ]


def start(args: list[str], **options: Any) -> Forked:
    """`gaf ARGS` in the background."""
    return Forked(["-m", "gaf.lab.cli", *args], **options)


def run(args: list[str], timeout: float = 120, **options: Any) -> tuple[int, str, str]:
    """`gaf ARGS` to the end: status, stdout, stderr."""
    return forked.run(["-m", "gaf.lab.cli", *args], timeout, **options)


def torchrun(processes: int, args: list[str]) -> None:
    """`torchrun -m gaf.lab.cli ARGS`: several processes that talk over gloo."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", str(processes), "-m", "gaf.lab.cli", *args),
        ],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def together(processes: int, args: list[str], timeout: float = 120) -> None:
    """The processes that torchrun would start, with the variables that it sets."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    sizes = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(processes))
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "1"}
    started = []
    for rank in range(processes):
        ranks = dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank))
        environment = {**ENVIRONMENT, **sizes, **meeting, **ranks, "GROUP_RANK": "0"}
        started.append(Forked(["-m", "gaf.lab.cli", *args], environment))
    try:
        for process in started:
            printed = process.communicate(timeout)
            assert process.returncode == 0, printed
    finally:
        for process in started:
            process.kill()


def wait_for(process: Forked, condition: Callable[[], object]) -> None:
    """Until something is so; fails if the process ends first."""
    began = time.monotonic()
    while not condition():
        if process.poll() is not None:
            raise AssertionError(f"it ended first: {process.communicate()}")
        assert time.monotonic() - began < 300
        time.sleep(0.0005)
