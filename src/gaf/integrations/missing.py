"""One sentence for a framework that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
