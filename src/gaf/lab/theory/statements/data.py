"""What a statement is, and what a check of it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from gaf.lab.theory.practice import Practice
from gaf.lab.theory.trials import Count, Dropped

Cell = str | int | float | None


@dataclass(frozen=True)
class CountedClaim:
    """One claim and its count.

    Attributes:
        claim: in a line.
        sound: cases inside all assumptions, and in how many of them the claim was false.
        printed: the same inside the assumptions that the paper prints; None where they are the same.
        dropped: what happens without each assumption.
    """

    claim: str
    sound: Count | None
    printed: Count | None
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """Something measured that belongs to a statement."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Findings:
    """What a check found."""

    parts: tuple[CountedClaim, ...]
    practice: tuple[Practice, ...] = ()
    tables: tuple[Measurement, ...] = ()

    @property
    def violations(self) -> int:
        """False claims inside the assumptions of the sound reading."""
        return sum(part.sound.failures for part in self.parts if part.sound)


@dataclass(frozen=True)
class Statement:
    """A definition, lemma or theorem of the paper.

    Attributes:
        name: for the command, such as "theorem-3".
        title: as the paper numbers it.
        subject: in a few words.
        printed: what the paper says.
        sound: the reading that is checked.
        slips: where the two differ, and why.
        assumed: what the sound reading assumes.
        checked: how.
        check: runs it, from a seed.
    """

    name: str
    title: str
    subject: str
    printed: str
    sound: str
    slips: tuple[str, ...]
    assumed: tuple[str, ...]
    checked: str
    check: Callable[[int], Findings]

    def record(self, findings: Findings) -> dict[str, Any]:
        """The statement and what was found, as plain data."""
        words = {key: value for key, value in vars(self).items() if key != "check"}
        return words | {"violations": findings.violations} | asdict(findings)
