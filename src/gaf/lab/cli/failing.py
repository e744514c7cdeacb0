"""How a command says what is wrong: one sentence for what the user can mend, a traceback for bugs."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from gaf.common.errors import GafError
from gaf.lab.cli import terminal

MISSING = "this needs {}, which is not installed: pip install 'activated-gradients[lab]'"
PACKAGES = (
    *("lightning_fabric", "matplotlib", "numpy", "PIL", "pydantic", "scipy", "sklearn"),
    *("optuna", "sympy", "tensorboard"),
)


@contextmanager
def said_in_a_sentence() -> Iterator[None]:
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
def ends_well(command: Sequence[str], *folders: Path) -> Iterator[None]:
    """Turn the ends that a grid of runs in some folders can have into a line and an exit status.

    Stopped by a signal: 128 + its number, and the command that goes on. A full disk: 1. A folder that
    cannot be written: a sentence.
    """
    from gaf.common.files import DiskFull
    from gaf.lab.study.grid import Stopped

    try:
        yield
    except Stopped as stopped:
        terminal.say(f"{stopped}; go on with: {shlex.join(command)}")
        raise typer.Exit(128 + stopped.number) from None
    except KeyboardInterrupt:  # between two grids, or a second Ctrl-C
        terminal.say(f"stopped; go on with: {shlex.join(command)}")
        raise typer.Exit(128 + signal.SIGINT) from None
    except DiskFull as full:
        terminal.say(f"{full}")
        raise typer.Exit(1) from None
    except OSError as error:
        if not str(error.filename).startswith(tuple(map(str, folders))):
            raise
        raise GafError(f"{error.filename} cannot be written: {error.strerror}") from None
