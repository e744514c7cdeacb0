"""Runs in processes of this machine, as many at once as its cores or GPUs hold.

A thread for each process asks it for one run after another (see :mod:`gaf.lab.study.worker`). A process
that dies is replaced, and its run goes on from the last checkpoint.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gaf.common.files import DiskFull
from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.script import USERS_PATH
from gaf.lab.study.grid import RunFailed

ATTEMPTS = 3  # processes that may die under one run
PATIENCE = 60.0  # seconds to save and end in
LOG = "workers.log"


@dataclass(frozen=True)
class Job:
    """A run that was asked for."""

    config: RunConfig
    folder: Path
    seen: Callable[[int, int], None]
    future: Future[None]


class Pool:
    """An executor of :mod:`gaf.lab.study.grid`.

    Args:
        slots: how many runs at once; :func:`slots` counts what fits.
        log: what the processes print: tracebacks, and what a task says.
        gpus: which the slots take in turn; none to compute on the CPU.
    """

    def __init__(self, slots: int, log: Path, gpus: Sequence[str] = ()) -> None:
        self.slots, self._log, self._gpus = slots, log, gpus
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._stopping = threading.Event()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def submit(
        self, config: RunConfig, folder: Path, seen: Callable[[int, int], None]
    ) -> Future[None]:
        job = Job(config, folder, seen, Future())
        self._jobs.put(job)
        if len(self._threads) < self.slots:  # processes start when there is work for them
            number = len(self._threads)
            thread = threading.Thread(target=self._serve, args=(number,), daemon=True)
            self._threads.append(thread)
            thread.start()
        return job.future

    def stop(self) -> None:
        """Let runs save and end, and wait for it; a second Ctrl-C does not wait."""
        self._stopping.set()
        for _ in self._threads:
            self._jobs.put(None)
        try:
            self._signal(signal.SIGTERM)
            for thread in self._threads:
                thread.join(PATIENCE)
        finally:
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    def _signal(self, number: int) -> None:
        for process in list(self._processes.values()):
            if process.poll() is None:
                process.send_signal(number)

    def _serve(self, number: int) -> None:
        """Give one process after the other the jobs there are."""
        while job := self._jobs.get():
            try:
                self._train(number, job)
            except BaseException as error:
                job.future.set_exception(error)
            else:
                job.future.set_result(None)
        if process := self._processes.get(number):
            end(process)

    def _train(self, number: int, job: Job) -> None:
        for _ in range(ATTEMPTS):
            if self._stopping.is_set():
                raise RunFailed("stopped")
            process = self._process(number)
            if self._stopping.is_set():  # by a stop() that came before the process was in its list
                raise RunFailed("stopped")
            answer = ask(process, job)
            if is_done(answer):
                return
            if "died" in answer:
                end(process)
        raise RunFailed(f"the process died {ATTEMPTS} times, at last with status {process.poll()}")

    def _process(self, number: int) -> subprocess.Popen[str]:
        """The process of a slot; a new one where there is none, or none any more."""
        process = self._processes.get(number)
        if process is None or process.poll() is not None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with open(self._log, "ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "gaf.lab.study.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self._environment(number),
                    text=True,
                    encoding="utf-8",
                )
            self._processes[number] = process
        return process

    def _environment(self, number: int) -> dict[str, str]:
        """What a process starts with: the same modules in reach, and a GPU of its own if there are any."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            USERS_PATH: os.environ.get("PYTHONPATH", ""),  # for a script of theirs
        }
        if self._gpus:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[number % len(self._gpus)]
        return environment


def local_pool(config: RunConfig, folder: Path, workers: int | None = None) -> Pool:
    """A pool for runs of a config, with its log in a folder; ``workers`` unset: what the machine holds."""
    return Pool(workers or slots(config), folder / LOG, gpus(config))


def is_done(answer: dict[str, Any]) -> bool:
    """Whether the last answer of a process says that its run is finished; raises where it failed."""
    if "failed" in answer:
        raise RunFailed(answer["failed"])
    if "full" in answer:
        raise DiskFull(answer["full"])
    return "done" in answer


def ask(process: subprocess.Popen[str], job: Job) -> dict[str, Any]:
    """Have a process train a run; returns its last answer, ``died`` where it gives none."""
    assert process.stdin is not None
    assert process.stdout is not None
    line = {"config": job.config.model_dump(mode="json"), "folder": str(job.folder.absolute())}
    try:
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
    except OSError:
        return {"died": True}
    for text in process.stdout:
        try:
            answer = json.loads(text)
        except json.JSONDecodeError:  # it died while it wrote
            break
        if "step" not in answer:
            return answer
        job.seen(answer["step"], answer["total"])
    return {"died": True}


def end(process: subprocess.Popen[str]) -> None:
    """Close the pipes of a process, which ends it, and wait until it has ended."""
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what it was never given
            pipe.close()  # type: ignore[union-attr]
    process.wait()


def gpus(config: RunConfig) -> tuple[str, ...]:
    """The GPUs that runs of a config may be spread over, as CUDA_VISIBLE_DEVICES names them."""
    if config.accelerator not in ("auto", "cuda") or not torch.cuda.is_available():
        return ()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return tuple(named.split(",") if named else map(str, range(torch.cuda.device_count())))


def slots(config: RunConfig) -> int:
    """How many runs of a config this machine holds at once: one on each GPU, or as the cores allow."""
    return len(gpus(config)) or max(1, cores() // (config.threads or 1))


def cores() -> int:
    """The cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
