"""Start the processes of a check and wait for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 600  # a hang ends here; on a busy machine a launch takes minutes


def launch(check: str, processes: int, folder: Path, *arguments: str) -> Any:
    """Run ``python -m tests.distributed.CHECK FOLDER ARGUMENTS...`` in processes that talk over gloo.

    Returns:
        What process 0 found (see :func:`tests.distributed.worker.main`).
    """
    result = folder / f"{check}-{processes}.json"
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "WORLD_SIZE": str(processes),
        "GAF_MEETING": f"file://{folder / f'{check}-{processes}.meeting'}",
        "GAF_RESULT": str(result),
    }
    command = [sys.executable, "-W", "error::UserWarning", "-m", f"tests.distributed.{check}"]
    logs = [folder / f"{check}-{processes}-{rank}.log" for rank in range(processes)]
    running = []
    for rank, log in enumerate(logs):
        with open(log, "w") as said:
            process = subprocess.Popen(
                [*command, str(folder), *arguments],
                env={**environment, "RANK": str(rank)},
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        running.append(process)
    try:
        status = _first_to_fail(running)
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert status == 0, "\n".join(log.read_text("utf-8") for log in logs)
    return json.loads(result.read_text("utf-8"))


def _first_to_fail(running: list[subprocess.Popen[bytes]]) -> int | None:
    """The first status that is not 0 (the others would wait for that process), 0, or None for too late."""
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        found = [process.poll() for process in running]
        if any(found):
            return next(status for status in found if status)
        if None not in found:
            return 0
        time.sleep(0.05)
    return None
