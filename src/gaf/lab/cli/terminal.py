"""The one place where the command prints, and how it says what is wrong.

What it shows of files, servers and users commands nothing: escape sequences, marks that turn the direction of
writing round and markup such as ``[red]`` are text here. What the user can mend is one sentence and exit
status 2; a bug keeps its traceback.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gaf.common.errors import GafError
from gaf.common.texts import printable

WIDTH = 1000  # of what does not go to a terminal: enough for any table
MISSING = "this needs {}, which is not installed: pip install 'activated-gradients[lab]'"
PACKAGES = (
    *("lightning_fabric", "matplotlib", "numpy", "PIL", "pydantic", "scipy", "sklearn"),
    *("sympy", "tensorboard"),
)


class PlainConsole(Console):
    """A rich console whose colours and movements are rich's own; all text is only text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Before the layout: what a terminal obeys has no width."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def stdout() -> PlainConsole:
    """For results: as wide as the terminal, or wide enough for any table where the output goes elsewhere."""
    return PlainConsole() if sys.stdout.isatty() else PlainConsole(width=WIDTH, highlight=False)


def stderr() -> PlainConsole:
    """For progress."""
    return PlainConsole(stderr=True)


def print_line(console: Console, text: str) -> None:
    """A line as it is, however long."""
    console.print(Text(text), soft_wrap=True)


def show(text: str, end: str = "\n") -> None:
    """Text to stdout."""
    print(printable(text), end=end)


def say(text: str) -> None:
    """A line to stderr."""
    print(f"gaf: {printable(text)}", file=sys.stderr)


def warn(message: Warning | str, *_: Any) -> None:
    """A line to stderr, in the place of :func:`warnings.showwarning`."""
    say(f"warning: {message}")


@contextmanager
def errors_in_a_line() -> Iterator[None]:
    """Turn what gaf itself refuses, and a package that is missing, into a line and exit status 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        raise typer.TyperException(MISSING.format(package)) from None
    except GafError as error:
        raise typer.TyperException(str(error)) from None


@contextmanager
def resumable(command: Sequence[str], *folders: Path) -> Iterator[None]:
    """Turn the ends that a grid of runs in some folders can have into a line and an exit status.

    Stopped by a signal: 128 + its number, and the command that goes on. A full disk: 1. A folder that
    cannot be written: a sentence.
    """
    from gaf.common.files import DiskFull
    from gaf.lab.study.grid import Stopped

    try:
        yield
    except Stopped as stopped:
        say(f"{stopped}; resume with: {shlex.join(command)}")
        raise typer.Exit(128 + stopped.number) from None
    except KeyboardInterrupt:  # between two grids, or a second Ctrl-C
        say(f"stopped; resume with: {shlex.join(command)}")
        raise typer.Exit(128 + signal.SIGINT) from None
    except DiskFull as full:
        say(str(full))
        raise typer.Exit(1) from None
    except OSError as error:
        if not str(error.filename).startswith(tuple(map(str, folders))):
            raise
        raise GafError(f"{error.filename} cannot be written: {error.strerror}") from None
