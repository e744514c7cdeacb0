"""SIGTERM and Ctrl-C tell a run, or a grid of them, to finish the step, save, and go."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
