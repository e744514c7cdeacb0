"""Runs on many machines: a Ray task for each, which goes on at its last checkpoint when its node is lost.

All nodes see the folder of the runs under the same path, and say so if they do not. Nothing else is
passed between them: what a run needs to go on anywhere is in its folder.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaf.common.errors import GafError
from gaf.common.texts import printable
from gaf.lab.engine import checkpoint
from gaf.lab.engine.config import RunConfig
from gaf.lab.study.grid import LOOK, RunFailed
from gaf.lab.study.pool import ATTEMPTS, PATIENCE, is_done
from gaf.lab.study.ray_task import TELL, progress, train_on_node

LOG = "ray.log"
MARK = ".shared-"
REACH = 5.0  # seconds to answer in
OBJECTS = 80 << 20  # bytes of Ray's object store on this machine: nothing large is passed


@dataclass
class RayJob:
    """A run that was asked for. ``lost``: how often in a row its process died before a new checkpoint."""

    config: RunConfig
    folder: Path
    seen: Callable[[int, int], None]
    future: Future[None]
    step: int = 0
    lost: int = 0


class RayGrid:
    """An executor of :mod:`gaf.lab.study.grid`, to be used in a ``with`` block.

    Args:
        folder: the runs' own, which all nodes see.
        address: of the cluster; None: the one this machine belongs to, else Ray on this machine alone.
    """

    def __init__(self, folder: Path, address: str | None = None) -> None:
        self._folder, self._address = folder.absolute(), address
        self._jobs: dict[Any, RayJob] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._open = ExitStack()

    def __enter__(self) -> RayGrid:
        _ray()
        _reach(self._address)  # before anything is made
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._open.enter_context(open(self._folder / LOG, "a", encoding="utf-8"))
        self._open.enter_context(
            redirect_stdout(log)
        )  # Ray prints there what its nodes complain of
        try:
            self._gpus = connect(self._address)
            for left in self._folder.glob(f"{MARK}*"):  # by a grid that was killed
                left.unlink(missing_ok=True)
            self._mark = self._folder / f"{MARK}{secrets.token_hex(8)}"
            self._mark.touch()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._mark.unlink(missing_ok=True)
            _ray().shutdown()
            self._open.close()

    def submit(
        self, config: RunConfig, folder: Path, seen: Callable[[int, int], None]
    ) -> Future[None]:
        check_held(config, resources(config, self._gpus))
        job = RayJob(config, folder.absolute(), seen, Future())
        self._start(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()
        return job.future

    def stop(self) -> None:
        """Let runs save and end, and wait for it."""
        ray = _ray()

        self._stopping.set()
        for task in self._waiting():
            with suppress(ray.exceptions.RayError):
                ray.cancel(task)  # as Ctrl-C: the engine saves and ends
        if self._thread:
            self._thread.join(PATIENCE)

    def _start(self, job: RayJob) -> None:
        # Ray's own retries would not know whether a run got any further
        remote = _ray().remote(max_retries=0, **resources(job.config, self._gpus))(train_on_node)
        config = job.config.model_dump(mode="json")
        task = remote.remote(config, str(job.folder), str(self._mark), _paths())
        with self._lock:
            self._jobs[task] = job

    def _waiting(self) -> list[Any]:
        with self._lock:
            return list(self._jobs)

    def _serve(self) -> None:
        """Pass on what comes of the tasks, and how far they are."""
        reported = 0.0
        while not (self._stopping.is_set() and not self._jobs):
            waiting = self._waiting()
            if not waiting:
                time.sleep(LOOK)
                continue
            try:
                over = ended(waiting)
            except GafError as lost:
                self._lose(lost)
                continue
            for task in over:
                with self._lock:
                    job = self._jobs.pop(task)
                try:
                    finished = self._ended(task, job)
                except BaseException as error:
                    job.future.set_exception(error)
                else:
                    if finished:
                        job.future.set_result(None)
            if time.monotonic() - reported > TELL:
                reported = time.monotonic()
                self._tell()

    def _lose(self, error: GafError) -> None:
        """End all runs there are; one that is asked for later is waited for, and ends as they do."""
        with self._lock:
            jobs = list(self._jobs.values())
            self._jobs.clear()
        for job in jobs:
            job.future.set_exception(error)

    def _tell(self) -> None:
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            if done := progress(job.folder):
                job.seen(done["step"], done["total"])

    def _ended(self, task: Any, job: RayJob) -> bool:
        """Whether the run is finished; otherwise it was started again."""
        answer = ask(task)
        if is_done(answer):
            return True
        if "unseen" in answer:
            raise GafError(answer["unseen"])
        if self._stopping.is_set():
            raise RunFailed("stopped")
        self._again(job, answer.get("died", "stopped"))
        return False

    def _again(self, job: RayJob, reason: str) -> None:
        """On whichever node is free. One that gets further each time may be lost any number of times."""
        step = last_step(job.folder)
        job.lost = 1 if step > job.step else job.lost + 1
        job.step = step
        if job.lost >= ATTEMPTS:
            raise RunFailed(f"the process died {ATTEMPTS} times at the same place: {reason}")
        name = printable(f"{job.config.name}, seed {job.config.seed}: {reason}")
        print(f"{name}; it resumes at step {step}")
        self._start(job)


def _ray() -> Any:
    """Ray, which is loaded only where it is asked for."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        raise GafError(
            "--on ray needs Ray, which is not installed: pip install 'activated-gradients[cluster]'"
        ) from None
    return ray


def connect(address: str | None) -> bool:
    """Join the cluster, or start Ray on this machine; returns whether there are GPUs."""
    ray = _ray()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(address=address or "auto", **quiet)
    except (ConnectionError, RuntimeError, ValueError, ImportError) as error:
        if address:
            raise GafError(
                f"there is no Ray cluster to use at {address}: {first_line(error)}"
            ) from None
        here = {"include_dashboard": False, "object_store_memory": OBJECTS}
        ray.init(address="local", **here, **quiet)
    return ray.cluster_resources().get("GPU", 0) > 0


def _reach(address: str | None) -> None:
    """Ray itself would wait for minutes where nobody answers."""
    place = re.fullmatch(r"(?:ray://)?\[?([^\[\]/]+)\]?:(\d+)", address or "")
    if not place:
        return
    try:
        socket.create_connection((place[1], int(place[2])), timeout=REACH).close()
    except (OSError, OverflowError) as error:
        raise GafError(f"no Ray cluster answers at {address}: {first_line(error)}") from None


def resources(config: RunConfig, gpus: bool) -> dict[str, int]:
    """What a run asks of its node: a core for each thread, and a GPU unless it computes on CPUs.

    Example:
        >>> from gaf.lab.study import recipes
        >>> resources(recipes.get("cifar100-resnet50-sgdm"), gpus=True)
        {'num_cpus': 1, 'num_gpus': 1}
    """
    wants = config.accelerator == "cuda" or (config.accelerator == "auto" and gpus)
    return {"num_cpus": config.threads or 1, "num_gpus": int(wants)}


def check_held(config: RunConfig, asked: dict[str, int]) -> None:
    """Refuse what no node of the cluster holds: Ray would wait for such a node for ever."""
    nodes = [node["Resources"] for node in _ray().nodes() if node["Alive"]]
    wanted = {"CPU": asked["num_cpus"], "GPU": asked["num_gpus"]}
    if not any(all(node.get(key, 0) >= number for key, number in wanted.items()) for node in nodes):
        raise GafError(
            f"no node of the cluster has what {config.name} asks for, {wanted['CPU']} CPUs and "
            f"{wanted['GPU']} GPUs: change threads or accelerator with --set, or add a node"
        )


def ended(tasks: list[Any]) -> list[Any]:
    """Those of the tasks that have ended; GafError where there is no cluster any more to tell."""
    try:
        return _ray().wait(tasks, timeout=LOOK)[0]
    except Exception as error:  # of Ray, of the connection, of the operating system
        raise GafError(
            f"the Ray cluster is lost: {first_line(error)}; once it is back, the same command resumes"
        ) from None


def ask(task: Any) -> dict[str, Any]:
    """The answer of a task that has ended; ``died`` where its process, or its node, is gone."""
    ray = _ray()
    exceptions = ray.exceptions
    try:
        return ray.get(task)
    except exceptions.TaskCancelledError:
        return {"stopped": True}
    except exceptions.RayTaskError as error:
        raise GafError(
            f"a node cannot train: {last_line(error)}; it needs the same activated-gradients[lab,cluster]"
        ) from None
    except exceptions.RayError as error:
        return {"died": first_line(error)}


def last_step(folder: Path) -> int:
    """Of the newest checkpoint; 0 where there is none."""
    newest = checkpoint.steps(folder / checkpoint.CHECKPOINTS)
    return checkpoint.step_of(newest[0]) if newest else 0


def first_line(error: BaseException) -> str:
    """The beginning of what Ray says, which can fill a screen."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def last_line(error: BaseException) -> str:
    """The error under a traceback."""
    lines = str(error).strip().splitlines()
    return lines[-1].rstrip(".") if lines else type(error).__name__


def _paths() -> list[str]:
    return [os.getcwd(), *(path for path in sys.path if path)]
