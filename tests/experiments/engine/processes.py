"""Trainings in processes of their own, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.experiments.engine.tiny import KIND

ROOT = Path(__file__).resolve().parents[3]
SOURCES = os.pathsep.join(
    map(str, (ROOT, ROOT / "src"))
)  # of this checkout, wherever gaf is installed
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCES, "NO_COLOR": "1"}


def arguments(folder: Path, *changes: str, options: dict[str, object] | None = None) -> list[str]:
    """Of `gaf train` on the tiny task."""
    chosen = [f"task.options.{key}={value}" for key, value in (options or {}).items()]
    sets = [
        *("threads=1", "accelerator=cpu", "log_every=3", "monitor_every=4"),
        *("optimizer.activation=arctan(0.1, 20)", *chosen, *changes),
    ]
    return [
        *("train", "--task", KIND, "--out", str(folder)),
        *(part for each in sets for part in ("--set", each)),
    ]


def hear_ctrl_c() -> None:
    """A shell's `&` makes what it starts deaf to it, and the tests may run in one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(args: list[str], **options: object) -> subprocess.Popen[str]:
    """`gaf ARGS` in the background."""
    options = {"preexec_fn": hear_ctrl_c, **options}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "gaf.cli", *args],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def run(args: list[str], timeout: float = 120, **options: object) -> tuple[int, str, str]:
    """`gaf ARGS` to the end: status, stdout, stderr."""
    process = start(args, **options)
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def torchrun(processes: int, args: list[str]) -> None:
    """`gaf ARGS` in several processes that talk over gloo."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", str(processes), "-m", "gaf.cli", *args),
        ],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def wait_for(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Until something is so; fails if the process ends first."""
    began = time.monotonic()
    while not condition():
        if process.poll() is not None:
            raise AssertionError(f"it ended first: {process.communicate()}")
        assert time.monotonic() - began < 300
        time.sleep(0.0005)
