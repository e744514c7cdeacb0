"""The command ``gaf``: one file a command, each a thin call."""

from __future__ import annotations

import sys
import warnings

MISSING = (
    "gaf: the command needs {}, which is not installed: pip install 'activated-gradients[cli]'"
)


def main() -> None:
    """Run the command with the arguments of this process, and exit."""
    try:
        from gaf.cli import terminal
        from gaf.cli.app import run
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("typer", "rich"):
            raise
        sys.exit(MISSING.format(package))
    warnings.showwarning = terminal.warn
    sys.exit(run(sys.argv[1:]))
