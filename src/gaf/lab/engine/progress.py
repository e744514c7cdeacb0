"""How far a run is: a bar with images a second and the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

REDRAW = 0.2  # seconds; by the training itself, as a thread that draws would take its time
LINES = 10.0  # seconds between plain lines


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
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[speed]}"),
                TimeRemainingColumn(),
            )
            self._bar = Bar(*columns, console=self._console, auto_refresh=False, transient=True)
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


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    Example:
        >>> clock(3725)
        '1:02:05'
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
