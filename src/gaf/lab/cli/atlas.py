"""The command line of ``gaf atlas``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaf.lab.cli import terminal
from gaf.lab.cli.trainings import Address, On, Workers, check_place, executor

if TYPE_CHECKING:
    from gaf.lab.study.atlas.atlas import Atlas, Places
    from gaf.lab.study.atlas.cost import ProblemCost
    from gaf.lab.study.atlas.suite import AtlasProblem, Suite


def atlas(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="SUITE.json",
            help="Problems, rules, rates and seeds; unset: the built-in suite.",
            show_default=False,
        ),
    ] = None,
    problems: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIST", help="Some of the problems, such as 'cauchy, heat'; may repeat."
        ),
    ] = None,
    rules: Annotated[
        list[str] | None,
        typer.Option(metavar="LIST", help="Some of the rules, beside the baseline; may repeat."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three problems, two rates, two seeds: minutes.")
    ] = False,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Train nothing: what the records hold, as pages.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="What would run, and what it costs, measured here.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For the studies and the page; unset: runs/atlas."),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Records of finished runs, from which this resumes; unset: results/atlas.",
        ),
    ] = None,
    on: On = "here",
    address: Address = None,
    workers: Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the map as JSON.")] = False,
) -> int:
    """Where do such rules help, and where not? A suite of comparisons, every rule tuned alike, as a map.

    Each finished run is a line in the folder of records, and is not trained again: after a stop or a kill, or
    on another machine, the same command resumes. With all runs recorded it only makes the pages.

    Example: gaf atlas --dry-run
    Example: gaf atlas --problems "cauchy, digits-spoilt" --rules "clip-norm-1, arctan(0.1, 20)@gradient"
    """
    from gaf.common.files import plain
    from gaf.lab.reports.atlas_page import write_atlas
    from gaf.lab.reports.page import write_page
    from gaf.lab.study.atlas.atlas import Places, run_suite
    from gaf.lab.study.atlas.records import NoTraining
    from gaf.lab.study.atlas.suite import read_suite
    from gaf.lab.study.settings import split

    check_place(on, address, workers)
    suite = read_suite(path)
    if quick:
        suite = suite.quickly()
    names = split(problems or [])
    chosen = [suite.problem(name) for name in names] if names else list(suite.problems)
    folder = out or Path("runs") / ("atlas-quick" if quick else "atlas")
    places = Places(folder, records or (folder / "records" if quick else Path("results/atlas")))
    wanted = split(rules or [])
    absent = [rule for rule in suite.absent(chosen) if not wanted or rule in wanted]
    for rule in absent:
        terminal.say(f"{rule} is left out: its package is not installed")
    if dry_run:
        return _dry_run(suite, chosen, wanted, places, as_json)
    command, first = ["gaf", *sys.argv[1:]], chosen[0].base
    with (
        terminal.resumable(command, folder, places.records),
        NoTraining() if recorded else executor(first, folder, on, address, workers) as trains,
    ):
        console = terminal.stderr()
        found, comparisons = run_suite(
            suite, chosen, wanted, places, trains, console, command, terminal.say
        )
    for name, comparison in comparisons.items():
        write_page(comparison, folder / name)
    page = write_atlas(found, folder)
    if as_json:
        print(json.dumps(plain(found.model_dump())))
    else:
        show(found, page)
    return 0


def _dry_run(
    suite: Suite, problems: Sequence[AtlasProblem], rules: list[str], places: Places, as_json: bool
) -> int:
    from gaf.lab.study.atlas.cost import costs

    found = costs(suite, problems, rules, places, terminal.say)
    if as_json:
        print(json.dumps([{**asdict(cost), "left": cost.left} for cost in found]))
        return 0
    _show_costs(found)
    return 0


def _show_costs(found: Sequence[ProblemCost]) -> None:
    from rich.table import Table
    from rich.text import Text

    from gaf.lab.engine.progress import clock

    table = Table()
    for column in ("problem", "rules", "runs", "recorded", "seconds a run", "left", "measured on"):
        table.add_column(column, justify="left" if column in ("problem",) else "right")
    for cost in found:
        seconds = "" if cost.seconds is None else f"{cost.seconds:.2g}"
        left = "" if cost.left is None else clock(cost.left)
        table.add_row(
            *(cost.problem, str(cost.rules), str(cost.runs), str(cost.recorded)),
            *(seconds, left, Text(cost.measured)),
        )
    console = terminal.stdout()
    console.print(table)
    total = sum(cost.left or 0.0 for cost in found)
    terminal.print_line(
        console,
        f"At least {clock(total)} of one worker, without evaluations: grids that grow take more.",
    )


def show(found: Atlas, page: Path) -> None:
    """The map, and where the page is."""
    from gaf.lab.reports.atlas_page import atlas_words, terminal_map

    console = terminal.stdout()
    console.print(terminal_map(found))
    for sentence in atlas_words(found):
        terminal.print_line(console, sentence)
    terminal.print_line(console, f"\npage: {page}\n")
