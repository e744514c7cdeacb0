"""The command line of ``gaf table``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaf.lab.cli import terminal
from gaf.lab.cli.trainings import SEEDS, Address, On, Place, Workers, check_place, executor

if TYPE_CHECKING:
    from gaf.lab.study.results import Filled
    from gaf.lab.study.table.plan import TablePlan

Name = Literal["imagenet", "cifar100", "cifar-adam", "voc"]  # the paper's tables I to IV
Scale = Literal["small", "full"]


def table(
    name: Annotated[Name, typer.Argument(help="Table I, II, III or IV of the paper.")],
    scale: Annotated[
        Scale, typer.Option(help="full: the paper's; small: slim models, minutes of a core each.")
    ] = "small",
    seeds: Annotated[int, typer.Option(min=1, max=SEEDS, help="Runs of each cell.")] = 1,
    models: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIST", help="Rows, such as 'resnet50, cifar10-resnet34'; may repeat."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIST", help="Columns, such as 'arctan(0.1, 20), tanh, clipping'; may repeat."
        ),
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Where f acts: gradient, momentum or update; unset: momentum, for Adam gradient.",
            show_default=False,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of all configs; may repeat."),
    ] = None,
    on: On = "here",
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Unset: runs/table-NAME. With ray: one that all nodes share."
        ),
    ] = None,
    workers: Workers = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would run, and what it costs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Train a table of the paper: its number next to ours in every cell, with the matched control of f.

    After a stop or a kill the same command resumes: finished runs are not repeated.

    Example: gaf table cifar100 --models resnet50 --settings "arctan, log" --seeds 3
    """
    from gaf.common.files import plain
    from gaf.lab.reports.table_page import write_all
    from gaf.lab.study import results
    from gaf.lab.study.grid import Stopped
    from gaf.lab.study.live import LiveTable
    from gaf.lab.study.settings import split
    from gaf.lab.study.table import fill
    from gaf.lab.study.table import plan as plans
    from gaf.optim.description import check_placement

    plan = plans.make(
        name,
        scale,
        seeds=seeds,
        placement=check_placement(placement),
        models=split(models or []),
        settings=split(settings or []),
        changes=changes or [],
    )
    folder = out or Path("runs") / f"table-{name}"
    check_place(on, address, workers)
    if dry_run:
        return _dry_run(plan, folder, on, workers, as_json)
    fill.check_folder(folder, plan)
    if on == "here":
        for line in _stand_ins(plan):
            terminal.say(line)
    command = ["gaf", *sys.argv[1:]]
    with terminal.resumable(command, folder):
        try:
            first, runs = plan.entries[0].config, folder / fill.RUNS
            with executor(first, runs, on, address, workers) as trains:
                watch = LiveTable(terminal.stderr(), f"gaf table {name}, {scale} scale")
                filled = fill.fill(plan, folder, trains, watch, command)
        except Stopped:
            write_all(results.read(folder, results.Filled), folder)
            raise
    files = write_all(filled, folder)
    if as_json:
        print(json.dumps(plain(filled.model_dump())))
    else:
        show(filled, files)
    return 0


def _stand_ins(plan: TablePlan, or_missing: bool = False) -> Iterator[str]:
    """A line for each dataset of which only a subset is here, and if wanted for each that is not here."""
    from gaf.lab import data

    tasks = {entry.config.task.data: entry.config.task for entry in plan.entries}
    for task in tasks.values():
        root: Any = task.data_options.get("root")
        try:
            line = "" if task.own else data.stand_in(task.data, root)
        except data.DataError as error:
            if not or_missing:
                raise
            line = str(error)
        if line:
            yield line


def _dry_run(plan: TablePlan, folder: Path, on: Place, workers: int | None, as_json: bool) -> int:
    from gaf.lab.reports import table_cost
    from gaf.lab.study import pool
    from gaf.lab.study.table import cost, fill

    missing = list(_stand_ins(plan, or_missing=True)) if on == "here" else []
    for line in missing:
        terminal.say(f"{line}; the cost is that of training on the whole of it")
    left = cost.left_to_do(plan.runs(), folder / fill.RUNS, terminal.say)
    at_once = None if on == "ray" else workers or pool.slots(plan.entries[0].config)
    bill = cost.bill(left, at_once)
    if as_json:
        runs = [cost.as_json(entry) for entry in left]
        print(json.dumps({**asdict(bill), "missing": missing, "runs": runs}))
        return 0
    console = terminal.stdout()
    console.print(table_cost.listed(left))
    for sentence in table_cost.sentences(bill):
        terminal.print_line(console, sentence)
    return 0


def show(filled: Filled, files: Sequence[Path]) -> None:
    """The table, what it means, and where the files are."""
    from gaf.lab.reports.paper_table import paper_table
    from gaf.lab.reports.table_page import headline
    from gaf.lab.reports.tables import TerminalTable

    console = terminal.stdout()
    console.print(TerminalTable(paper_table(filled)))
    terminal.print_line(console, filled.about)
    terminal.print_line(console, headline(filled))
    beside = ", ".join(file.name for file in files[1:])
    terminal.print_line(console, f"\npage: {files[0]}, beside it {beside}\n")
