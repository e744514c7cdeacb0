"""Count the modules that `gaf compare` passes, from the command line to the page: `python docs/walk.py`.

A module counts where one of its functions is entered, by any thread. What runs while a module is imported
does not count: decorators, tables that are built. Runs are trained in this process, so that what trains is
seen too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from types import FrameType
from typing import Any

from gaf.lab.engine.run import train
from gaf.lab.study import pool

COMMAND = "gaf compare digits-cnn-sgdm --seeds 2 --set epochs=2 --settings arctan(0.1,20)"
FUNCTION = 0x1  # CO_OPTIMIZED: of functions, not of modules and classes
OURS = ("gaf", "gaf_command")


class InProcess:
    """In the place of a pool of processes."""

    slots = 1

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, config: Any, folder: Path, seen: object) -> Future[None]:
        future: Future[None] = Future()
        train(config, folder)
        future.set_result(None)
        return future

    def stop(self) -> None:
        pass


def is_import(frame: FrameType | None) -> bool:
    """Whether a frame runs because a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def is_training(frame: FrameType | None) -> bool:
    """Whether a frame runs within a training, which processes of their own do in the command."""
    while frame is not None:
        if frame.f_code is InProcess.submit.__code__:
            return True
        frame = frame.f_back
    return False


def passed(call: Any) -> dict[str, set[str]]:
    """The modules of ours that a call passes, each with whether that was in the command or in a training."""
    modules: dict[str, set[str]] = {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event != "call" or name.partition(".")[0] not in OURS:
            return
        if not frame.f_code.co_flags & FUNCTION or is_import(frame):
            return
        where = "training" if is_training(frame) else "command"
        modules.setdefault(name, set()).add(where)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return modules


def main() -> None:
    """Print the modules and how many there are."""
    from gaf_command import main as gaf

    def command() -> None:
        try:
            gaf()
        except SystemExit as end:
            if end.code:
                raise

    pool.Pool = InProcess  # type: ignore[misc]
    os.chdir(tempfile.mkdtemp())
    sys.argv = COMMAND.split()
    modules = passed(command)
    for name, where in sorted(modules.items()):
        print(f"{name:<50} {', '.join(sorted(where))}")
    in_command = sum("command" in where for where in modules.values())
    print(
        f"{len(modules)} modules, {in_command} of them in the command itself, without the trainings"
    )


if __name__ == "__main__":
    main()
