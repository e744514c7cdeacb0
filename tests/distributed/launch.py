"""Start the processes of a check and wait for them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.forked import ENVIRONMENT, Forked

SECONDS = 600  # a hang ends here; on a busy machine a launch takes minutes


def launch(check: str, processes: int, folder: Path, *arguments: str) -> Any:
    """Run ``python -m tests.distributed.CHECK FOLDER ARGUMENTS...`` in processes that talk over gloo.

    Returns:
        What process 0 found (see :func:`tests.distributed.worker.main`).
    """
    result = folder / f"{check}-{processes}.json"
    environment = {
        **ENVIRONMENT,
        "WORLD_SIZE": str(processes),
        "GAF_MEETING": f"file://{folder / f'{check}-{processes}.meeting'}",
        "GAF_RESULT": str(result),
    }
    running = [
        Forked(
            ["-m", f"tests.distributed.{check}", str(folder), *arguments],
            {**environment, "RANK": str(rank)},
            error=UserWarning,
        )
        for rank in range(processes)
    ]
    try:
        status = _first_to_fail(running)
    finally:
        for process in running:
            process.kill()
    assert status == 0, "\n".join("".join(process.communicate()) for process in running)
    return json.loads(result.read_text("utf-8"))


def _first_to_fail(running: list[Forked]) -> int | None:
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
