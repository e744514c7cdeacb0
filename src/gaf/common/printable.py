"""Text from files, servers and users as a terminal may show it; of its own, since every door needs it."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Text in which nothing is left that a terminal would obey; lines still end.

    Control characters (also those above 127), marks that turn the direction of writing round and halves of
    characters become spaces.

    Example:
        >>> printable("a\x1b[31mb\x9b1m\u202ec\nd")
        'a [31mb 1m c\nd'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
