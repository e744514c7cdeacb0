"""The command line's reference, written into docs/commands.md from the commands themselves at build time.

The page holds `<!-- commands -->`, which a code host does not show; here it becomes a section for each
command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

HERE = "<!-- commands -->"
# What Typer says of types and ranges, in words.
WORDS = (
    (re.compile(r"^([^-].*) <(?:str|list\[\w+\])>$"), r"\1"),  # the name of an argument says enough
    (re.compile(r"<list\[(\w+)\]>"), r"<\1>"),
    (re.compile(r"<(int|float) range>"), r"<\1>"),
    (re.compile(r"([\d.]+)<=x<=([\d.]+)"), r"\1 to \2"),
    (re.compile(r"x>=([\d.]+)"), r"at least \1"),
)


def write(app: Any, name: str, source: list[str]) -> None:
    """Put the sections into the page, as Sphinx reads it."""
    if HERE in source[0]:
        source[0] = source[0].replace(HERE, "\n".join(sections()))


def sections() -> Iterator[str]:
    """Markdown for `gaf` and each of its commands."""
    from typer.main import get_command

    from gaf.lab.cli.app import app

    group: Any = get_command(app)
    for name, command in sorted(group.commands.items()):
        yield from section(f"gaf {name}", command)
        for below, inner in getattr(command, "commands", {}).items():
            yield from section(f"gaf {name} {below}", inner, level=3)


def section(name: str, command: Any, level: int = 2) -> Iterator[str]:
    """One command: what it does, an example, its arguments and options."""
    context = command.make_context(name, [], resilient_parsing=True)
    about, *examples = (command.help or "").split("Example: ")
    yield f"{'#' * level} {name}\n"
    yield f"{_prose(about.strip())}\n"
    if examples:
        lines = [" ".join(example.split()) for example in examples]
        yield "\n".join(("```bash", *lines, "```\n"))
    if hasattr(command, "commands"):
        return
    # an option with "[default: ...]" has two spaces before it
    records = [each.get_help_record(context) for each in command.get_params(context)]
    yield "| | |\n|---|---|"
    for what, meaning in filter(None, records):
        said, _, extra = f"  {meaning}".partition("  [")
        default = f" *{_prose(_in_words(extra.rstrip(']')))}*" if extra else ""
        name = _in_words(what).replace("|", r"\|")
        yield f"| `{name}` | {_prose(said.strip())}{default} |"
    yield ""


def _in_words(text: str) -> str:
    for pattern, words in WORDS:
        text = pattern.sub(words, text)
    return text


def _prose(text: str) -> str:
    """As Markdown shows it unchanged."""
    for mark in "*_<>|[]":
        text = text.replace(mark, f"\\{mark}")
    return text


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", write)
    return {"parallel_read_safe": True}
