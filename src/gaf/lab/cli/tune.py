"""The command line of ``gaf tune``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.cli.compare import show as show_comparison
from gaf.lab.cli.failing import ends_well, said_in_a_sentence
from gaf.lab.cli.trained import NAME, SEEDS, WORKERS, trained

if TYPE_CHECKING:
    from gaf.lab.engine.config import RunConfig

WIDTH = 120  # of what does not go to a terminal
SHOWN = 10  # candidates in the table


def tune(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar=NAME,
            help="What to train: a recipe, see gaf train --list, or a task of your own, from this folder. "
            "Unset: a deep perceptron that SGD does not train.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="A task of your own in the place of the recipe's."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="'600 epochs' or '3 minutes'; unset: a tenth of all candidates in full.",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the config; may repeat."),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--check",
            min=0,
            max=SEEDS,
            help="Then train the winner in full on so many seeds of its own.",
        ),
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIST",
            help="Beside the winner in --check, such as 'adam(0.01), auto'; may repeat.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Unset: runs/tune-NAME.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=WORKERS, help="Runs at once; unset: as many as the machine holds."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> int:
    """Find alpha and beta: the paper's steps (a) to (d), then a race against the baseline and the control.

    It probes the training without a function, looks at the loss curve near the optimum, recommends with
    reasons, races that and its neighbours over several seeds, and says when nothing beats the baseline.
    Stopped or killed, the same command goes on.

    Example: gaf tune digits-cnn-sgdm --budget "400 epochs"
    """
    command = ["gaf", *sys.argv[1:]]
    with said_in_a_sentence():
        config = _config(name, task, changes or [])
        folder = out or Path("runs") / f"tune-{config.name}"
        return _tune(config, folder, budget, seeds, settings or [], workers, as_json, command)


def _config(name: str | None, task: str | None, changes: list[str]) -> RunConfig:
    from gaf.lab.engine.config import override
    from gaf.lab.study.tune.cases import hard_case

    base = hard_case() if name is None and task is None else trained(name, task)
    return override(base, changes)


def _tune(
    config: RunConfig,
    folder: Path,
    budget: str | None,
    seeds: int,
    beside: list[str],
    workers: int | None,
    as_json: bool,
    command: list[str],
) -> int:
    from gaf.common.files import plain
    from gaf.lab.reports.page import write_page as write_comparison
    from gaf.lab.reports.tune_page import write_page
    from gaf.lab.study import pool
    from gaf.lab.study.grid import RUNS
    from gaf.lab.study.live import LiveTable
    from gaf.lab.study.settings import split
    from gaf.lab.study.tune import check
    from gaf.lab.study.tune.record import record
    from gaf.lab.study.tune.tune import Spend, check_folder, tune

    spend = Spend() if budget is None else Spend.parse(budget)
    if beside and not seeds:
        raise GafError("--settings stand beside the winner in a check: add --check 10")
    others = split(beside)
    if seeds:
        check.plan(config, others, seeds)  # a name that does not exist is refused before the race
    check_folder(folder)
    console = terminal.stderr()

    def told(text: str) -> None:
        console.print(Text(text), soft_wrap=True)

    def watch(title: str) -> LiveTable:
        told(title)
        return LiveTable(console)

    slots = workers or pool.slots(config.model_copy(update={"threads": config.threads or 1}))
    log = folder / RUNS / pool.LOG
    with ends_well(command, folder), pool.Pool(slots, log, pool.gpus(config)) as processes:
        done = tune(
            config,
            folder,
            processes,
            spend=spend,
            slots=slots,
            watch=watch,
            told=told,
            command=command,
        )
        found = plain(record(done))
        page = write_page(found, folder)
        checked = None
        if seeds:
            plan = check.plan(config, [done.found.winner.name, *others], seeds)
            grid = watch(f"check, {done.found.winner.name} and others on {seeds} fresh seeds")
            checked = check.check(plan, folder, processes, grid, command)
    checked_page = write_comparison(checked, folder / check.CHECK) if checked else None
    if as_json:
        print(json.dumps({**found, "check": plain(checked.model_dump()) if checked else None}))
        return 0
    show(found, page)
    if checked and checked_page:
        show_comparison(checked, checked_page)
    return 0


def show(found: dict[str, Any], page: Path) -> None:
    """The reasoning, the table, the verdict, the line to copy, and where the page is."""
    console = terminal.stdout(WIDTH)
    for subject, sentence in found["reasons"]:
        console.print(Text(f"{subject}: {sentence}"), soft_wrap=True)
    console.print(_race(found))
    console.print(_final(found))
    cost = found["cost"]
    console.print(Text(found["verdict"]), soft_wrap=True)
    console.print(
        Text(
            f"cost: {cost['steps']} steps with the probe and all seeds, {cost['share']:.1%} of the "
            f"{cost['in_full']} of running all {cost['candidates']} candidates in full; "
            f"{found['seconds']:.0f} s"
        ),
        soft_wrap=True,
    )
    if found["helps"]:
        console.print(Text(f"\n{found['line']}\n"), soft_wrap=True)
    console.print(Text(f"page: {page}"), soft_wrap=True)


def _race(found: dict[str, Any]) -> Table:
    cost = found["cost"]
    table = Table(title=f"the best {SHOWN} of {len(found['raced'])} candidates")
    table.add_column("candidate")
    for steps in ("first", "second"):
        table.add_column(f"{cost[steps]} steps", justify="right")
    table.add_column("from")
    for each in found["raced"][:SHOWN]:
        second = ", ".join(map(_shown, each["second"]))
        table.add_row(each["name"], _shown(each["first"]), second, each["source"])
    return table


def _final(found: dict[str, Any]) -> Table:
    score = found["score"]
    steps, n = found["cost"]["final"], len(score["seeds"])
    table = Table(title=f"final: {score['name']} after {steps} steps, {n} seeds")
    for column in ("setting", "scores", "the winner's gain [95 %]", "verdict"):
        table.add_column(column)
    table.add_row(found["winner"]["name"], " ".join(map(_shown, score["winner"])), "", "")
    for each in found["against"]:
        gain = f"{_shown(each['mean'])} [{_shown(each['low'])}, {_shown(each['high'])}]"
        scores = " ".join(map(_shown, each["scores"]))
        table.add_row(each["name"], scores, gain, each["verdict"])
    return table


def _shown(value: float | str | None) -> str:
    """A score; inf and NaN come as words."""
    return "–" if value is None else value if isinstance(value, str) else f"{value:.4g}"
