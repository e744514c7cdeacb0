"""Commands in processes of their own that need not import torch first: forked from a server that has.

Each is a process like any other, with its signals, its folder, its environment and its end; only what
takes seconds at the start of every one, the imports, is done once for all that a process of tests asks for.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import warnings
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = os.pathsep.join(
    map(str, (ROOT, ROOT / "src"))
)  # of this checkout, wherever gaf is installed
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCES, "NO_COLOR": "1"}
IMPORTED = (
    *("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.checkpoint"),
    *("torch.distributed.tensor.parallel", "tensorboard.summary.writer.event_file_writer"),
    *("gaf.lab.cli.app", "gaf.lab.study.compare", "gaf.lab.engine.run"),
    *("gaf.lab.study.table", "tests.lab.engine.tiny", "tests.lab.study.grid_tasks"),
)


class Forked:
    """``python -W error COMMAND...``, with those methods of ``subprocess.Popen`` that tests use.

    Args:
        command: ``-m`` and a module or ``-c`` and code, then the arguments.
        environment: its environment.
        cwd: the folder it starts in.
        start_new_session: whether it leads a group of processes, which can be killed as one.
        file_size: the largest file it may write, in bytes.
        error: the warnings that are errors.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] = ENVIRONMENT,
        *,
        cwd: Path | None = None,
        start_new_session: bool = False,
        file_size: int = resource.RLIM_INFINITY,
        error: type[Warning] = Warning,
    ) -> None:
        folder = tempfile.mkdtemp()
        weakref.finalize(
            self, shutil.rmtree, folder, ignore_errors=True
        )  # a fork has one of its own
        self._printed = [Path(folder) / name for name in ("stdout", "stderr")]
        for path in self._printed:
            path.touch()
        self._process = _server().Process(
            target=_become,
            args=(
                *(list(command), dict(environment), str(cwd or Path.cwd())),
                *(start_new_session, file_size, error, self._printed),
            ),
        )
        self._process.start()
        self.pid: int = self._process.pid  # type: ignore[assignment]

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("gaf", timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        return self.printed()

    def printed(self) -> tuple[str, str]:
        """What stands in stdout and stderr so far."""
        out, err = (path.read_text("utf-8") for path in self._printed)
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def _server() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        forkserver.ensure_running()
    return context


def _become(
    command: list[str],
    environment: dict[str, str],
    cwd: str,
    start_new_session: bool,
    file_size: int,
    error: type[Warning],
    printed: list[Path],
) -> None:
    """In the new process: what a shell and the start of Python would have done."""
    if start_new_session:
        os.setsid()
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, resource.RLIM_INFINITY))
    for number, path in enumerate(printed, start=1):
        with open(path, "w") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path[:] = [cwd, *environment["PYTHONPATH"].split(os.pathsep), *sys.path]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.filterwarnings("error", category=error)
    how, what, *arguments = command
    sys.argv = [what if how == "-m" else how, *arguments]
    try:
        if how == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), vars(main))
    finally:
        atexit._run_exitfuncs()


def run(command: Sequence[str], timeout: float = 120, **options: Any) -> tuple[int, str, str]:
    """``python -W error COMMAND...`` to its end: status, stdout, stderr."""
    process = Forked(command, **options)
    out, err = process.communicate(timeout)
    return process.wait(), out, err
