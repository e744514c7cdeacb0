"""Definition 1 of the paper, clause by clause, and what a check of it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

#: What a gradient activation function is, by the paper's numbers. Clause 4 is read for g != 0: no f
#: meets it at 0.
STATEMENTS = {
    "differentiable": "(1a) f is twice differentiable",
    "increasing": "(1b) f is monotonically increasing: a <= b gives f(a) <= f(b)",
    "odd": "(2) f is odd: f(-g) = -f(g)",
    "restraining": "(3) there is eps >= 0 with f(g) <= g for all g >= eps",
    "concave": "(4) g f''(g) < 0 for all g != 0",
}
SYMBOLIC_FORM = "the symbolic form is the formula"


class Finding(NamedTuple):
    """The outcome of one check: a witness is a g at which the statement fails."""

    holds: bool
    detail: str
    witness: float | None = None


@dataclass(frozen=True)
class Clause:
    """One clause of Definition 1 and what was found.

    Attributes:
        name: the key of the clause in a verdict, such as "odd".
        statement: the clause in words, with its number in the paper.
        holds: whether it holds.
        method: "symbolic" for a proof by sympy, "numeric" for a check by values.
        witness: a g at which it fails; None if it holds or if f cannot be computed at all.
        detail: the reason, or the range in which it was checked.
    """

    name: str
    statement: str
    holds: bool
    method: Literal["symbolic", "numeric"]
    witness: float | None
    detail: str


@dataclass(frozen=True)
class Verdict:
    """Whether f is a gradient activation function by Definition 1; true if every clause holds."""

    function: str
    clauses: tuple[Clause, ...]
    note: str = ""

    @property
    def holds(self) -> bool:
        return all(clause.holds for clause in self.clauses)

    def __bool__(self) -> bool:
        return self.holds

    def __getitem__(self, name: str) -> Clause:
        for clause in self.clauses:
            if clause.name == name:
                return clause
        known = ", ".join(clause.name for clause in self.clauses)
        raise KeyError(f"no clause named {name!r}; there are {known}")

    def __str__(self) -> str:
        rows = [("clause", "holds", "method", "witness", "detail")]
        for c in self.clauses:
            witness = "-" if c.witness is None else f"g = {c.witness:.4g}"
            rows.append((c.name, "yes" if c.holds else "NO", c.method, witness, c.detail))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [f"{self.function} {'meets' if self else 'does not meet'} Definition 1"]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join((" ", *cells, row[-1])))
        return "\n".join(lines + ([self.note] if self.note else []))
