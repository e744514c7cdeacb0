"""``gaf theory``: every lemma and theorem of the paper, checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.engine.progress import working

if TYPE_CHECKING:
    from gaf.lab.theory.statements import Findings, Statement

MOST = 2**31 - 1  # as a seed


def theory(
    name: Annotated[
        str | None,
        typer.Option(
            "--statement", metavar="NAME", help="Only this one, in full, such as theorem-3."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST, help="Seed of the random cases.")] = 0,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/theory.md.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all findings as JSON.")] = False,
) -> int:
    """Check the paper's statements: 10,000 random cases inside the assumptions, and without each of them.

    A violation inside the assumptions would be a finding: it is printed with its numbers.

    Example: gaf theory --statement theorem-6
    """
    from gaf.common.files import plain
    from gaf.lab.theory.statements import STATEMENTS, find
    from gaf.lab.theory.statements.findings import detail
    from gaf.lab.theory.statements.page import page

    if markdown and (as_json or name):
        raise GafError("--markdown prints the whole page: leave --statement and --json out")
    chosen = [find(name)] if name else list(STATEMENTS)
    results = list(_checked(chosen, seed))
    if as_json:
        records = [statement.record(findings) for statement, findings in results]
        print(json.dumps(plain({"seed": seed, "statements": records}), indent=2))
    elif markdown:
        terminal.show(page(results, seed), end="")
    elif name:
        terminal.show(detail(*results[0]), end="")
    else:
        _print_summary(results)
    return 0


def _checked(statements: list[Statement], seed: int) -> Iterator[tuple[Statement, Findings]]:
    with _one_thread():
        for statement in statements:
            with working(terminal.stderr(), f"{statement.title}: {statement.subject}"):
                findings = statement.check(seed)
            yield statement, findings


@contextmanager
def _one_thread() -> Iterator[None]:
    """Tensors are small here: threads would only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _print_summary(results: list[tuple[Statement, Findings]]) -> None:
    from gaf.lab.theory.statements.findings import SUMMARY, summary_rows

    console = terminal.stdout()
    table = Table(box=None, pad_edge=False)
    for column in SUMMARY:
        table.add_column(column)
    for row in summary_rows(results):
        table.add_row(*map(Text, row))
    console.print(table)
    for statement, findings in results:
        for part in findings.parts:
            if part.sound and part.sound.failures:
                console.print(Text(f"{statement.title} is violated: {part.sound.example}"))
    terminal.show("\nMore on one of them: gaf theory --statement theorem-3")
