"""What passes between a run and whoever waits for it.

The run shows how far it is: a bar with images a second and the time left on a terminal, else plain lines.
SIGTERM and Ctrl-C tell it to finish the step, save, and go.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A run that was told to stop; its folder holds a checkpoint of the step it stopped at."""

    def __init__(self, folder: Path, step: int, number: int) -> None:
        super().__init__(f"stopped at step {step}; the run in {folder} can be resumed")
        self.folder, self.step, self.number = folder, step, number


class Wish:
    """What signal has come, if any."""

    number: int = 0


@contextmanager
def listening() -> Iterator[Wish]:
    """Note signals instead of dying by them; a second Ctrl-C means at once.

    Only the main thread may do so: elsewhere the wish stays empty. A signal that is ignored stays so: a
    shell starts `command &` deaf to Ctrl-C.
    """
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return

    def note(number: int, frame: object) -> None:
        if wish.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        wish.number = number

    heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heard}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
