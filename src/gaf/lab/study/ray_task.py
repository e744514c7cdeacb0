"""What a node of a Ray cluster does for a grid: train one run in a folder that all nodes see."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from gaf.common.files import write_whole
from gaf.lab.study.worker import Answers, serve
from gaf.lab.tasks.base import SCRIPT

PROGRESS = ".progress"  # in a run's folder: who trains it, from which step on, how far it is
TELL = 2.0  # seconds between two looks at how far a run is; the folder may be on a network


class Notes(Answers):
    """Answers of a run: how far it is goes into a file of its folder, the last one is kept."""

    def __init__(self, folder: Path, node: str) -> None:
        self._file, self._node = folder / PROGRESS, node
        self._total, self._told, self._from = 0, 0.0, -1
        self.last: dict[str, Any] = {}

    def send(self, **answer: Any) -> None:
        if "step" not in answer:
            self.last = answer
            return
        if self._from < 0:
            self._from = answer["step"]
        content = {"node": self._node, "from": self._from, **answer}
        write_whole(self._file, json.dumps(content).encode())

    def step(self, step: int, samples: int) -> None:
        now = time.monotonic()
        if now - self._told >= TELL:
            self._told = now
            self.send(step=step, total=self._total)


def train_on_node(
    config: dict[str, Any], folder: str, mark: str, paths: list[str]
) -> dict[str, Any]:
    """Train a run, or go on with it; returns the last answer of :func:`gaf.lab.study.worker.serve`.

    Args:
        config: of the run, as JSON has it.
        folder: of the run, as the one who asks sees it.
        mark: a file that the one who asks has made beside the runs: not there, the folder is another.
        paths: where modules are found, first the working folder of the one who asks; what this node has
            already, or has not got, is no harm.
    """
    import ray  # type: ignore[import-not-found]

    sys.path += [path for path in paths if path not in sys.path]
    if not Path(mark).is_file():
        place = ray.util.get_node_ip_address()
        return {
            "unseen": f"the node {place} does not see {Path(mark).parent}: give --out a folder that all "
            "nodes of the cluster share under the same path"
        }
    if config["task"]["kind"] == SCRIPT and Path(paths[0]).is_dir():
        os.chdir(paths[0])  # the working folder stays that of whoever asks
    notes = Notes(Path(folder), ray.get_runtime_context().get_node_id())
    serve({"config": config, "folder": folder}, notes)
    return notes.last


def progress(folder: Path) -> dict[str, Any] | None:
    """What :class:`Notes` wrote last; None where nothing has begun."""
    try:
        return json.loads((folder / PROGRESS).read_text("utf-8"))
    except (OSError, ValueError):
        return None
