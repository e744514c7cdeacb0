"""The error for what a user can mend."""

from __future__ import annotations


class GafError(ValueError):
    """What gaf refuses, in a sentence that says what to do.

    The command ``gaf`` prints it in one line. Every other error is a bug and keeps its traceback.

    Example:
        >>> import gaf
        >>> try:
        ...     gaf.parse("arctn(0.1, 20)")
        ... except gaf.GafError as error:
        ...     print(error)
        unknown gradient activation function 'arctn'; did you mean 'arctan'?
    """
