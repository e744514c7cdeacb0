"""The commands under one name, and how they fail: one line on stderr, exit status 2, no traceback."""

from __future__ import annotations

import errno
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from gaf import __version__
from gaf.lab.cli import terminal
from gaf.lab.cli.atlas import atlas
from gaf.lab.cli.bench import bench
from gaf.lab.cli.compare import compare
from gaf.lab.cli.data import data
from gaf.lab.cli.detect import detect
from gaf.lab.cli.doctor import doctor
from gaf.lab.cli.figure import figure
from gaf.lab.cli.landscape import landscape
from gaf.lab.cli.report import report
from gaf.lab.cli.table import table
from gaf.lab.cli.theory import theory
from gaf.lab.cli.train import train
from gaf.lab.cli.tune import tune

EXAMPLE = "Example: "  # begins a line of its own in a docstring


def help_of(command: Callable[..., object]) -> str:
    """The docstring of a command with a line for each paragraph and example: the terminal wraps it."""
    paragraphs = [" ".join(text.split()) for text in (inspect.getdoc(command) or "").split("\n\n")]
    return "\n\n".join(text.replace(f" {EXAMPLE}", f"\n{EXAMPLE}") for text in paragraphs)


app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
for command in (
    *(compare, atlas, doctor, bench, figure, report, theory, table, train, tune, landscape, detect),
):
    app.command(help=help_of(command))(command)
app.add_typer(data, name="data")


def _version(asked: bool) -> None:
    if asked:
        terminal.show(f"gaf {__version__}")
        raise typer.Exit


@app.callback()
def gaf(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Gradient activation functions for PyTorch."""


def _unwritten(error: OSError) -> int:
    """The exit status where the output goes to a full device, or to a pipe that was closed: ``| head``."""
    from gaf.common.files import FULL

    if error.errno not in (*FULL, errno.EPIPE):
        raise error
    # what is left in the buffer goes nowhere, or Python would complain of it at the end
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        what = error.filename or "the output"
        terminal.say(f"{what} cannot be written: {error.strerror}")
    return 1


def run(args: Sequence[str]) -> int:
    """Run ``gaf ARGS``; returns the exit status."""
    try:
        with terminal.errors_in_a_line():
            status = app(list(args) or ["--help"], prog_name="gaf", standalone_mode=False)
        sys.stdout.flush()  # at the latest here one sees that the output cannot be written
    except typer.TyperException as error:
        terminal.say(" ".join(error.format_message().split()))
        return 2
    except OSError as error:
        return _unwritten(error)
    return status if isinstance(status, int) else 0


def main() -> None:
    """Run the command with the arguments of this process, and exit."""
    warnings.showwarning = terminal.warn
    sys.exit(run(sys.argv[1:]))
