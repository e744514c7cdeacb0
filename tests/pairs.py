"""All pairs now, the full product in the slow suite."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest


def pairs_first(*fixtures: str, **factors: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrise a test over the product of its arguments; all but a pairwise selection is marked slow.

    Two values of two arguments meet in at least one case of the selection, which is the same in every run.
    Arguments that are fixtures with parameters are named first.

    Example:
        >>> mark = pairs_first(name=["a", "b"], dtype=[1, 2], foreach=[True, False])
        >>> [case.values for case in mark.args[1] if not case.marks]
        [('a', 1, True), ('a', 2, False), ('b', 1, False), ('b', 2, True)]
    """
    return _parametrized(fixtures, factors, set(_selection(list(map(len, factors.values())))))


def one_each(*fixtures: str, **factors: Sequence[Any]) -> pytest.MarkDecorator:
    """The same with one case for each value of the first argument, the others in turn; all else is slow.

    Example:
        >>> mark = one_each(name=["a", "b", "c"], dtype=[1, 2])
        >>> [case.values for case in mark.args[1] if not case.marks]
        [('a', 1), ('b', 2), ('c', 1)]
    """
    first, *others = map(len, factors.values())
    places = list(itertools.product(*map(range, others)))
    # one more than a row: neighbours differ in the last argument and in the one before
    step = (others[-1] + 1) if len(others) > 1 else 1
    chosen = {(index, *places[index * step % len(places)]) for index in range(first)}
    return _parametrized(fixtures, factors, chosen)


def _parametrized(
    fixtures: tuple[str, ...], factors: dict[str, Sequence[Any]], chosen: set[tuple[int, ...]]
) -> pytest.MarkDecorator:
    names = tuple(factors)
    cases = [
        pytest.param(
            *(factors[name][index] for name, index in zip(names, place, strict=True)),
            marks=() if place in chosen else pytest.mark.slow,
        )
        for place in itertools.product(*(range(len(values)) for values in factors.values()))
    ]
    return pytest.mark.parametrize(names, cases, indirect=list(fixtures))


def _selection(counts: list[int]) -> list[tuple[int, ...]]:
    """Greedy: the place that meets most pairs not met so far, the first of equals, until all are met."""
    places = list(itertools.product(*map(range, counts)))
    met: set[frozenset[tuple[int, int]]] = set()
    chosen = []
    while True:
        gains = [len(_pairs(place) - met) for place in places]
        best = max(range(len(places)), key=gains.__getitem__)
        if not gains[best]:
            return chosen
        chosen.append(places[best])
        met |= _pairs(places[best])


def _pairs(place: tuple[int, ...]) -> set[frozenset[tuple[int, int]]]:
    return {frozenset(two) for two in itertools.combinations(enumerate(place), 2)}
