"""Trials of a statement "if A, B and C then X": many cases at once, and what they say together.

A case knows which assumptions it meets and whether the claim is true in it. Inside all assumptions a
false claim is a violation. With one assumption dropped and all others met, a false claim is a
counterexample, which says that the assumption is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gaf.common.errors import GafError

CASES = 10_000  # inside the assumptions, at least


@dataclass(frozen=True)
class Trials:
    """Cases of a statement.

    Attributes:
        assumptions: for each assumption, by its name, in which cases it holds.
        claim: in which cases the claim is true.
        describe: a case in words, with its numbers.
    """

    assumptions: dict[str, Tensor]
    claim: Tensor
    describe: Callable[[int], str]

    def meeting(self, but: str | None = None, only: Collection[str] | None = None) -> Tensor:
        """The cases that meet all assumptions, ``only`` some, or all ``but`` one, which they break."""
        met = torch.ones_like(self.claim)
        for name, holds in self.assumptions.items():
            if only is None or name in only:
                met &= ~holds if name == but else holds
        return met


@dataclass
class Count:
    """How many cases met some assumptions, in how many of them the claim was false, the first of those."""

    cases: int = 0
    failures: int = 0
    example: str = ""

    def add(self, trials: Trials, met: Tensor) -> None:
        false = met & ~trials.claim
        self.cases += int(met.sum())
        self.failures += int(false.sum())
        if false.any() and not self.example:
            self.example = trials.describe(int(false.nonzero()[0]))


@dataclass
class Tally:
    """Counts over many batches: under all assumptions, under the printed ones, without each one."""

    sound: Count = field(default_factory=Count)
    printed: Count = field(default_factory=Count)
    dropped: dict[str, Count] = field(default_factory=dict)


def tally(
    batches: Iterable[Trials], printed: Collection[str] | None = None, cases: int = CASES
) -> Tally:
    """Count trials, batch after batch, until enough cases met all assumptions.

    Args:
        batches: the trials.
        printed: the assumptions that the paper prints; None where it prints all of them.
        cases: how many are enough.
    """
    total = Tally()
    for trials in batches:
        total.sound.add(trials, trials.meeting())
        total.printed.add(trials, trials.meeting(only=printed))
        for name in trials.assumptions:
            total.dropped.setdefault(name, Count()).add(trials, trials.meeting(but=name))
        if total.sound.cases >= cases:
            return total
    raise GafError(f"only {total.sound.cases} of {cases} cases met the assumptions: draw more")


@dataclass(frozen=True)
class Dropped:
    """What happens without one assumption.

    Attributes:
        assumption: its name.
        cases: random cases that meet the others and not this one.
        failures: of these, in how many the claim is false.
        example: a concrete case in which the claim is false; empty where there is none.
        reason: why there is none, or why it fails.
    """

    assumption: str
    cases: int
    failures: int
    example: str
    reason: str


@dataclass(frozen=True)
class Example:
    """A concrete case that meets all assumptions but one, and what it shows."""

    trials: Trials | None
    reason: str


def without(total: Tally, examples: dict[str, Example]) -> tuple[Dropped, ...]:
    """Pair the counts with a concrete example for each assumption, after checking the example."""
    rows = []
    for name, count in total.dropped.items():
        example = examples[name]
        shown = ""
        if example.trials is not None:
            (breaks,) = (example.trials.meeting(but=name) & ~example.trials.claim).tolist()
            if not breaks:
                raise AssertionError(f"the example without {name!r} is no counterexample")
            shown = example.trials.describe(0)
        rows.append(Dropped(name, count.cases, count.failures, shown, example.reason))
    return tuple(rows)
