"""The command ``gaf``: one file a command, each a thin call."""

from __future__ import annotations

import sys
import warnings


def main() -> None:
    """Run the command with the arguments of this process, and exit."""
    from gaf.lab.cli import terminal
    from gaf.lab.cli.app import run

    warnings.showwarning = terminal.warn
    sys.exit(run(sys.argv[1:]))
