"""Texts for people: names near one that does not exist, and nothing that a terminal would obey."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

LIKE = 0.6  # of 1: how like a name must be to be offered
NEARLY_AS_LIKE = 0.1


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name.

    Example:
        >>> did_you_mean("optimizer.lrr", ["optimizer.lr", "optimizer.betas", "seed"])
        "; did you mean 'optimizer.lr'?"
        >>> did_you_mean("lr", ["optimizer.lr", "seed"])
        "; did you mean 'optimizer.lr'?"
        >>> did_you_mean("xyz", ["seed", "lr"])
        '; there are lr, seed'
    """
    known = sorted(known)
    if near := near_names(name, known):
        return f"; did you mean {' or '.join(map(repr, near[:3]))}?"
    return f"; there are {', '.join(known)}" if known else ""


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The names that are nearly this one, the nearest first; else those that end in the same part.

    Example:
        >>> near_names("arctn", ["arctan", "tanh", "log"])
        ['arctan']
    """
    known = sorted(known)
    likeness = {other: SequenceMatcher(None, name, other).ratio() for other in known}
    best = max(likeness.values(), default=0.0)
    near = [other for other in known if likeness[other] >= max(LIKE, best - NEARLY_AS_LIKE)]
    if not near:
        near = [other for other in known if other.rpartition(".")[2] == name.rpartition(".")[2]]
    return sorted(near, key=lambda other: -likeness[other])


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
