"""What can be wrong with data, each said in one sentence."""

from __future__ import annotations

from gaf.common.errors import GafError


class DataError(GafError):
    """Data that cannot be used; the message is a sentence that says what to do."""


class DatasetMissing(DataError):
    """A dataset that is not on this machine; the message holds the command that gets it."""


class DamagedFile(DataError):
    """A file that is not what its name promises."""


def reason(error: BaseException | str) -> str:
    """Why something failed, in words, without the system's number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
