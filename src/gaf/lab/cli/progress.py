"""What a command shows while it works: a bar on a terminal, plain lines elsewhere; all on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gaf.lab.cli import terminal
from gaf.lab.data.download import Report

LINES = 10.0  # seconds between plain lines
MEGABYTE = 1e6


@contextmanager
def working(text: str) -> Iterator[None]:
    """A sign of life while something takes its time."""
    console = terminal.stderr()
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        console.print(f"{text} ...", highlight=False, soft_wrap=True)
        yield


class Transfer:
    """Tells of bytes that come (:meth:`announce`) or of images that are read (:meth:`count`)."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, float] = {}

    def __enter__(self) -> Transfer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def announce(self, name: str) -> Report:
        """For a file: what to call with bytes so far and in all."""

        def report(done: int, total: int | None) -> None:
            of = f" of {total / MEGABYTE:.1f}" if total else ""
            columns = (DownloadColumn(), TransferSpeedColumn())
            self._tell(name, done, total, f"{name}: {done / MEGABYTE:.1f}{of} MB", columns)

        return report

    def count(self, name: str, done: int, total: int) -> None:
        """For a split of a dataset: images so far and in all."""
        text = f"{name}: {done} of {total} images"
        self._tell(name, done, total, text, (MofNCompleteColumn(),))

    def say(self, text: str) -> None:
        """A line, above the bar where there is one."""
        terminal.print_line(self._console, text)

    def _tell(self, name: str, done: int, total: int | None, text: str, columns: tuple) -> None:
        if self._console.is_terminal:
            if self._bar is None:
                first = (TextColumn("{task.description}", markup=False), BarColumn())
                self._bar = Progress(
                    *first, *columns, TimeRemainingColumn(), console=self._console, transient=True
                )
                self._bar.start()
            if name not in self._tasks:
                self._tasks[name] = self._bar.add_task(name, total=total)
            self._bar.update(self._tasks[name], completed=done, total=total)
            return
        now = time.monotonic()
        if done == total or now - self._said.get(name, -LINES) >= LINES:
            self._said[name] = now
            self.say(text)
