"""How far something is: a bar on a terminal, plain lines elsewhere, on a console of the caller's.

A run shows images a second and the time left; a transfer its bytes or images; anything else a sign of life.
A grid of runs has a table of its own (:mod:`gaf.lab.study.live`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

if TYPE_CHECKING:
    from gaf.lab.data.download import Report

REDRAW = 0.2  # seconds; by the training itself, as a thread that draws would take its time
LINES = 10.0  # seconds between plain lines
MEGABYTE = 1e6


def bar(console: Console, *columns: ProgressColumn, **options: Any) -> Bar:
    """A bar that goes away when it is done; what it is of is text, not markup."""
    first = (TextColumn("{task.description}", markup=False), BarColumn())
    return Bar(*first, *columns, console=console, transient=True, **options)


@contextmanager
def working(console: Console, text: str) -> Iterator[None]:
    """A sign of life while something takes its time."""
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        console.print(f"{text} ...", highlight=False, soft_wrap=True)
        yield


class Progress:
    """What the engine tells while it trains; this one shows nothing."""

    def begin(self, name: str, done: int, total: int) -> None:
        """A run of ``total`` steps goes on after ``done``."""

    def step(self, step: int, samples: int) -> None:
        """A step of ``samples`` has been done."""

    def say(self, text: str) -> None:
        """Something to read: an evaluation, a divergence."""

    def end(self) -> None:
        """The run has ended in some way."""


class ConsoleProgress(Progress):
    """On a rich console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Bar | None = None
        self._name, self._total, self._said = "", 0, 0
        self._samples, self._since, self._drawn = 0, 0.0, 0.0

    def begin(self, name: str, done: int, total: int) -> None:
        self._name, self._total, self._said = name, total, done
        self._since = self._drawn = time.perf_counter()
        if self._console.is_terminal:
            speed = TextColumn("{task.fields[speed]}")
            columns = (MofNCompleteColumn(), speed, TimeRemainingColumn())
            self._bar = bar(self._console, *columns, auto_refresh=False)
            self._task = self._bar.add_task(name, total=total, completed=done, speed="")
            self._bar.start()
        elif done:
            self.say(f"resumed at step {done} of {total}")

    def step(self, step: int, samples: int) -> None:
        self._samples += samples
        now = time.perf_counter()
        if now - self._drawn < (REDRAW if self._bar else LINES):
            return
        speed = f"{self._samples / (now - self._since):,.0f} images/s"
        if self._bar:
            self._bar.update(self._task, completed=step, speed=speed, refresh=True)
            if now - self._since > LINES:  # a speed of these seconds, not of the whole run
                self._samples, self._since = 0, now
        else:
            left = (self._total - step) * (now - self._since) / (step - self._said)
            self.say(f"step {step}/{self._total}, {speed}, {clock(left)} left")
            self._samples, self._since, self._said = 0, now, step
        self._drawn = now

    def say(self, text: str) -> None:
        self._console.print(Text(f"{self._name}: {text}"), soft_wrap=True)

    def end(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None


class Transfer:
    """Tells of bytes that come (:meth:`announce`) or of images that are read (:meth:`count`)."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Bar | None = None
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
        self._console.print(Text(text), soft_wrap=True)

    def _tell(
        self,
        name: str,
        done: int,
        total: int | None,
        text: str,
        columns: tuple[ProgressColumn, ...],
    ) -> None:
        if self._console.is_terminal:
            if self._bar is None:
                self._bar = bar(self._console, *columns, TimeRemainingColumn())
                self._bar.start()
            if name not in self._tasks:
                self._tasks[name] = self._bar.add_task(name, total=total)
            self._bar.update(self._tasks[name], completed=done, total=total)
            return
        now = time.monotonic()
        if done == total or now - self._said.get(name, -LINES) >= LINES:
            self._said[name] = now
            self.say(text)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    Example:
        >>> clock(3725)
        '1:02:05'
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
