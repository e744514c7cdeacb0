"""What the integrations share: a framework that is missing, and f on the arrays of another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gaf.functions.base import Activation


@contextmanager
def needs(package: str) -> Iterator[None]:
    """Turn a failing import of ``package`` inside into a sentence that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(
            f"gaf.integrations needs {package}: pip install 'activated-gradients[integrations]'",
            name=error.name,
        ) from None


def check_formula(f: Activation, xp: Any, g: Any) -> None:
    """Raise in a sentence where the formula of ``f`` cannot be computed by the namespace ``xp``.

    Args:
        f: the function.
        xp: an array namespace, such as jax.numpy or keras.ops.
        g: an array of ``xp`` to try it on. Of two elements, so that a Python branch on them fails too.
    """
    try:
        type(f).formula(xp, g, *f.params)
    except Exception as error:  # whatever a user's formula, or the framework, raises
        reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".:")
        raise TypeError(
            f"the formula of {f.name} cannot be computed by {xp.__name__} ({reason}): write it with "
            f"functions that {xp.__name__} has too, and without branches on the values of g"
        ) from error
