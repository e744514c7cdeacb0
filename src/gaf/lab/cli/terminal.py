"""The one place where the command prints: what it shows of files, servers and users commands nothing.

Escape sequences, marks that turn the direction of writing round and markup such as ``[red]`` are text here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gaf.common.texts import printable


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


def stdout(width: int) -> PlainConsole:
    """For results: as wide as the terminal, or ``width`` where the output goes elsewhere."""
    return PlainConsole() if sys.stdout.isatty() else PlainConsole(width=width, highlight=False)


def stderr() -> PlainConsole:
    """For progress."""
    return PlainConsole(stderr=True)


def show(text: str, end: str = "\n") -> None:
    """Text to stdout."""
    print(printable(text), end=end)


def say(text: str) -> None:
    """A line to stderr."""
    print(f"gaf: {printable(text)}", file=sys.stderr)


def warn(message: Warning | str, *_: Any) -> None:
    """A line to stderr, in the place of :func:`warnings.showwarning`."""
    say(f"warning: {message}")
