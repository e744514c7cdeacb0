"""Docstrings are written to be read as text; here they become what Sphinx parses.

|g| is an absolute value, not a substitution, and a list of arguments may run over several lines.
"""

from __future__ import annotations

import re
from typing import Any

BARS = re.compile(r"(``.*?``|:\w+:`.*?`)|\|")
MORE_NAMES = re.compile(r"^\s+[\w, ]+,$")


def mend(app: Any, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Before napoleon reads a docstring."""
    mended: list[str] = []
    for line in lines:
        if mended and MORE_NAMES.match(mended[-1]):
            mended[-1] += f" {line.strip()}"
        elif line.lstrip().startswith((">>>", "...")):
            mended.append(line)
        else:
            mended.append(BARS.sub(lambda found: found[1] or r"\|", line))
    lines[:] = mended


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx; napoleon has priority 500."""
    app.connect("autodoc-process-docstring", mend, priority=400)
    return {"parallel_read_safe": True}
