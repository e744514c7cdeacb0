"""A process that trains one run after another: ``python -m gaf.lab.study.worker``.

Starting Python and importing torch and Fabric takes seconds, so a process serves many runs. It reads a line
of JSON for each run and answers in lines of JSON: ``{"step": 3, "total": 9}`` on the way, and at the end one
of ``done``, ``failed``, ``full`` (the disk) and ``stopped`` (by a signal, after a checkpoint). When whoever
started it is gone, however that came about, it makes a checkpoint and goes too.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from gaf.common.errors import GafError
from gaf.lab.engine.progress import Progress

TELL = 0.5  # seconds between two reports of how far a run is
PATIENCE = 60.0  # seconds in which a process that was orphaned has left its run


class Answers(Progress):
    """Lines to whoever asked."""

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe = pipe
        self._total, self._told = 0, 0.0

    def send(self, **answer: Any) -> None:
        """One line."""
        with suppress(
            BrokenPipeError
        ):  # nobody listens any more, as the thread that reads will see
            print(json.dumps(answer), file=self._pipe, flush=True)

    def begin(self, name: str, done: int, total: int) -> None:
        self._total = total
        self.send(step=done, total=total)

    def step(self, step: int, samples: int) -> None:
        now = time.monotonic()
        if now - self._told >= TELL:
            self._told = now
            self.send(step=step, total=self._total)


def main() -> None:
    """Serve until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    # What a task of the user's prints must not get between the answers.
    answers = Answers(os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # A process that reads data is forked and closes sys.stdin: it would wait for ever for a thread in it.
    lines = os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8")
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - as long as the process lives
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(lines, asked), daemon=True).start()
    while line := asked.get():
        serve(json.loads(line), answers)


def _read(lines: IO[str], asked: queue.Queue[str]) -> None:
    for line in lines:
        asked.put(line)
    asked.put("")
    os.kill(
        os.getpid(), signal.SIGTERM
    )  # a run in progress saves and ends; idle, so does the process


def serve(job: dict[str, Any], answers: Answers) -> None:
    """Train one run and say what came of it."""
    from gaf.common.files import DiskFull
    from gaf.lab.engine import config as configs
    from gaf.lab.engine.run import train
    from gaf.lab.engine.signals import Interrupted
    from gaf.lab.tasks import import_maker

    folder = Path(job["folder"])
    try:
        if ":" in job["config"]["task"]["kind"]:
            import_maker(
                job["config"]["task"]["kind"]
            )  # it may register functions the config names
        wait_until_free(folder)
        train(configs.read(job["config"]), folder, progress=answers)
    except Interrupted as stopped:
        answers.send(stopped=stopped.number)
    except DiskFull as full:
        answers.send(full=str(full))
    except Exception as error:  # whatever a task may raise: it is the run that failed
        traceback.print_exc()
        # a sentence stands by itself, what is a bug has its kind before it
        text = str(error) if isinstance(error, GafError) else f"{type(error).__name__}: {error}"
        answers.send(failed=" ".join(text.split()))
    else:
        answers.send(done=True)


def wait_until_free(folder: Path) -> None:
    """A process whose parent was killed may still be saving this very run."""
    from gaf.lab.engine.folder import locked

    until = time.monotonic() + PATIENCE
    while True:
        try:
            with locked(folder):
                return
        except GafError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    main()
