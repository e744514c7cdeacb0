"""The command line of ``gaf table``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.cli.failing import ends_well, said_in_a_sentence
from gaf.lab.cli.trained import SEEDS, WORKERS

if TYPE_CHECKING:
    from gaf.lab.study.live import LiveTable
    from gaf.lab.study.table.found import Filled
    from gaf.lab.study.table.plan import TablePlan

WIDTH = 160  # of tables that do not go to a terminal


class Name(str, Enum):
    """The paper's tables I to IV."""

    imagenet = "imagenet"
    cifar100 = "cifar100"
    cifar_adam = "cifar-adam"
    voc = "voc"


class Scale(str, Enum):
    """How large."""

    small = "small"
    full = "full"


class Placement(str, Enum):
    """Where f acts."""

    momentum = "momentum"
    update = "update"
    gradient = "gradient"


class On(str, Enum):
    """What trains."""

    here = "here"
    ray = "ray"


def table(
    name: Annotated[Name, typer.Argument(help="Table I, II, III or IV of the paper.")],
    scale: Annotated[
        Scale, typer.Option(help="full: the paper's; small: slim models, minutes of a core each.")
    ] = Scale.small,
    seeds: Annotated[int, typer.Option(min=1, max=SEEDS, help="How many.")] = 1,
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
        Placement | None,
        typer.Option(help="Where f acts; unset: momentum, for Adam gradient.", show_default=False),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of all configs; may repeat."),
    ] = None,
    on: Annotated[
        On, typer.Option(help="here: processes of this machine; ray: a Ray cluster.")
    ] = On.here,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Of the Ray cluster; unset: this machine's.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Unset: runs/table-NAME. With ray: one that all nodes share."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=WORKERS, help="Runs at once here; unset: what the machine holds."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would run, and what it costs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Fill a table of the paper again: its number beside ours in every cell, and f's matched control.

    Stopped or killed, the same command goes on: finished runs are found and not repeated.

    Example: gaf table cifar100 --models resnet50 --settings "arctan, log" --seeds 3
    """
    command = ["gaf", *sys.argv[1:]]
    with said_in_a_sentence():
        from gaf.lab.study.settings import split
        from gaf.lab.study.table import plan as plans

        plan = plans.make(
            name.value,
            scale.value,
            seeds=seeds,
            placement=placement.value if placement else None,
            models=split(models or []),
            settings=split(settings or []),
            changes=changes or [],
        )
        folder = out or Path("runs") / f"table-{name.value}"
        if address and on is On.here:
            raise GafError("--address is for --on ray")
        if workers and on is On.ray:
            raise GafError("--workers is for this machine; a cluster's nodes say what they hold")
        if dry_run:
            return _dry_run(plan, folder, on, workers, as_json)
        return _table(plan, folder, on, address, workers, as_json, command)


def _table(
    plan: TablePlan,
    folder: Path,
    on: On,
    address: str | None,
    workers: int | None,
    as_json: bool,
    command: Sequence[str],
) -> int:
    from gaf.common.files import plain
    from gaf.lab import data
    from gaf.lab.reports.table_page import write_all
    from gaf.lab.study.grid import Stopped
    from gaf.lab.study.table import fill, found

    fill.check_folder(folder, plan)
    if on is On.here:
        for name, root in _roots(plan).items():  # a dataset that is missing is told once
            if line := data.stand_in(name, root):
                terminal.say(line)
    with ends_well(command, folder):
        try:
            with _executor(plan, folder / fill.RUNS, on, address, workers) as executor:
                filled = fill.fill(plan, folder, executor, _watch(plan), command)
        except Stopped:
            write_all(found.read(folder), folder)
            raise
    files = write_all(filled, folder)
    if as_json:
        print(json.dumps(plain(filled.model_dump())))
    else:
        show(filled, files)
    return 0


def _roots(plan: TablePlan) -> dict[str, Any]:
    """The datasets that a plan trains on, and the folder that each is looked for in."""
    tasks = [entry.config.task for entry in plan.entries]
    return {task.data: task.data_options.get("root") for task in tasks if not task.own}


def _executor(
    plan: TablePlan, runs: Path, on: On, address: str | None, workers: int | None
) -> AbstractContextManager[Any]:
    from gaf.lab.study import pool

    if on is On.ray:
        from gaf.lab.study.ray_grid import RayGrid

        return RayGrid(runs, address)
    first = plan.entries[0].config
    return pool.Pool(workers or pool.slots(first), runs / pool.LOG, pool.gpus(first))


def _watch(plan: TablePlan) -> LiveTable:
    from gaf.lab.engine.config import RunConfig
    from gaf.lab.study.live import LiveTable

    class ByModel(LiveTable):
        """One row for each model: with all settings the table would be longer than a screen."""

        def begin(self, configs: Sequence[RunConfig], found: int) -> None:
            title = f"gaf table {plan.name}, {plan.scale} scale"
            super().begin(
                [
                    each.model_copy(
                        update={"name": f"{title}: {each.task.model} on {each.task.data}"}
                    )
                    for each in configs
                ],
                found,
            )

    return ByModel(terminal.stderr())


def _dry_run(plan: TablePlan, folder: Path, on: On, workers: int | None, as_json: bool) -> int:
    from gaf.lab import data
    from gaf.lab.reports import table_cost
    from gaf.lab.study import pool
    from gaf.lab.study.table import cost, fill

    missing = []
    for name, root in _roots(plan).items() if on is On.here else ():
        try:
            line = data.stand_in(name, root)
        except data.DataError as error:
            line = str(error)
        if line:
            missing.append(line)
            terminal.say(f"{line}; the cost is that of training on the whole of it")
    left = cost.left_to_do(plan.runs(), folder / fill.RUNS, terminal.say)
    at_once = None if on is On.ray else workers or pool.slots(plan.entries[0].config)
    bill = cost.bill(left, at_once)
    if as_json:
        runs = [cost.as_json(each) for each in left]
        print(json.dumps({**asdict(bill), "missing": missing, "runs": runs}))
        return 0
    console = terminal.stdout(WIDTH)
    console.print(table_cost.listed(left))
    for sentence in table_cost.sentences(bill):
        console.print(Text(sentence), soft_wrap=True)
    return 0


def show(filled: Filled, files: Sequence[Path]) -> None:
    """The table, what it means, and where the files are."""
    from gaf.lab.reports.paper_table import paper_table
    from gaf.lab.reports.table_page import headline
    from gaf.lab.reports.tables import TerminalTable

    console = terminal.stdout(WIDTH)
    console.print(TerminalTable(paper_table(filled)))
    console.print(Text(filled.about), soft_wrap=True)
    console.print(Text(headline(filled)), soft_wrap=True)
    console.print(Text(f"\npage: {files[0]}, beside it {', '.join(f.name for f in files[1:])}\n"))
