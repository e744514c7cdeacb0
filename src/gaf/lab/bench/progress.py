"""A progress bar on a terminal, plain lines elsewhere; both on stderr.

The bar is drawn between measurements only: a thread that redraws it would take time from what is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def stage(console: Console, title: str, total: int) -> Iterator[Callable[[], None]]:
    """Announce a stage of ``total`` repetitions; yields what to call after each."""
    began = time.perf_counter()
    if not console.is_terminal:
        console.print(f"{title} ...", highlight=False)
        done = 0

        def count() -> None:
            nonlocal done
            done += 1

        try:
            yield count
        finally:
            seconds = time.perf_counter() - began
            console.print(f"{title}: {done} of {total} in {seconds:.0f} s", highlight=False)
        return

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(
        *columns, TimeElapsedColumn(), console=console, auto_refresh=False, transient=True
    )
    with bar:
        task = bar.add_task(title, total=total)
        bar.refresh()

        def draw() -> None:
            bar.advance(task)
            bar.refresh()

        yield draw
