"""How a command says what is wrong: one sentence for what the user can mend, a traceback for bugs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

MISSING = "this needs {}, which is not installed: pip install 'activated-gradients[lab]'"
PACKAGES = (
    *("lightning_fabric", "matplotlib", "numpy", "PIL", "plotly", "pydantic", "scipy", "sklearn"),
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
    except ValueError as error:
        if not _said_by_us(error):
            raise
        raise typer.TyperException(str(error)) from None


def _said_by_us(error: ValueError) -> bool:
    """Whether gaf raised it: those are sentences to read. Others are bugs, and keep their traceback."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1].f_globals.get("__name__", "").startswith("gaf.")
