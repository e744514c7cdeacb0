"""What a statement is, and what a check of it finds: as data, and in words for tables and the terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from gaf.lab.theory.practice import QUADRATICS, Practice
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


SUMMARY = (
    *("statement", "what is checked", "cases", "violations", "as printed", "violations as printed"),
    *("assumptions needed", "all hold in practice"),
)


def summary_rows(results: list[tuple[Statement, Findings]]) -> list[tuple[str, ...]]:
    """The table of all statements: a row for each claim that was counted."""
    rows = []
    for statement, findings in results:
        for number, part in enumerate(findings.parts):
            title = statement.title if not number else ""
            applies = practice_in_short(findings.practice) if not number else ""
            rows.append(
                (title, part.claim, *counted(part.sound), *_printed(part), needed(part), applies)
            )
    return rows


def counted(count: Count | None) -> tuple[str, str]:
    """Cases and violations."""
    return (f"{count.cases:,}", f"{count.failures:,}") if count else ("", "")


def _printed(part: CountedClaim) -> tuple[str, str]:
    return counted(part.printed) if part.printed else ("the same", "")


def needed(part: CountedClaim) -> str:
    """How many of the assumptions have a counterexample."""
    counterexamples = sum(bool(dropped.example) for dropped in part.dropped)
    return f"{counterexamples} of {len(part.dropped)}" if part.dropped else ""


def practice_in_short(rows: tuple[Practice, ...]) -> str:
    """The largest share, and where it is."""
    if not rows:
        return ""
    best = max(rows, key=lambda row: row.every)
    if not best.every:
        return f"never, on {len(rows)} problems"
    quadratics = [row.every for row in rows if row.problem in QUADRATICS]
    never = ", on quadratics never" if quadratics and not any(quadratics) else ""
    return f"at most {percent(best.every)} ({best.problem}){never}"


def percent(share: float | None) -> str:
    """A share; 0 and 1 only where they are exact."""
    if share is None:
        return "–"
    if 0 < share < 0.01 or 0.99 < share < 1:
        return "< 1 %" if share < 0.5 else "> 99 %"
    return f"{100 * share:.0f} %"


def cell(value: Cell) -> str:
    """A cell of a table."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value


def dropped_row(dropped: Dropped) -> tuple[str, str, str, str]:
    """What happens without an assumption: its name, random cases, how often the claim failed, an example."""
    cases = f"{dropped.cases:,}" if dropped.cases else "none drawn"
    failed = f"{dropped.failures:,}" if dropped.cases else ""
    example = f"{dropped.example}. {dropped.reason}" if dropped.example else dropped.reason
    return dropped.assumption, cases, failed, example


def detail(statement: Statement, findings: Findings) -> str:
    """All that is known of a statement, as plain text."""
    lines = [
        f"{statement.title}: {statement.subject}",
        "",
        f"Printed: {statement.printed}",
        f"Sound:   {statement.sound}",
        *(f"Slip:    {slip}" for slip in statement.slips),
        f"Checked: {statement.checked}",
    ]
    for part in findings.parts:
        lines += ["", f"Claim: {part.claim}"]
        if part.sound:
            lines.append(_count_line("inside the assumptions", part.sound))
        if part.printed:
            lines.append(_count_line("as printed", part.printed))
        for dropped in part.dropped:
            name, cases, failed, example = dropped_row(dropped)
            lines.append(f"  without “{name}”: {_failed(cases, failed)}\n    {example}")
    if findings.practice:
        lines += ["", "How often the assumptions hold:"]
        lines += [f"  {row.problem}, {row.where}\n    {_held(row)}" for row in findings.practice]
    for table in findings.tables:
        lines += ["", table.title, *_aligned(table.columns, table.rows)]
        lines += [table.note] if table.note else []
    return "\n".join(lines) + "\n"


def _failed(cases: str, failed: str) -> str:
    return f"false in {failed} of {cases} random cases" if failed else "no random cases"


def _count_line(where: str, count: Count) -> str:
    line = f"  {where}: {count.cases:,} cases, {count.failures:,} violations"
    return f"{line}\n    first: {count.example}" if count.failures else line


def _held(row: Practice) -> str:
    shares = "; ".join(f"{name}: {percent(share)}" for name, share in row.holds.items())
    claim = "" if row.claim is None else f", claim true {percent(row.claim)}"
    return f"all {percent(row.every)}{claim} ({shares})"


def _aligned(columns: tuple[str, ...], rows: tuple[tuple[Cell, ...], ...]) -> list[str]:
    table = [columns, *(tuple(map(cell, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  " + "  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
