"""The command line of ``gaf tune``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.cli.compare import show as show_comparison
from gaf.lab.cli.trainings import NAME, SEEDS, Changes, Workers, trained

if TYPE_CHECKING:
    from gaf.lab.study.results import Tuned

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
    changes: Changes = None,
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
    workers: Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> int:
    """Find alpha and beta: the paper's steps (a) to (d), then a race against the baseline and the control.

    It probes the training without a function, looks at the loss curve near the optimum, recommends with
    reasons, races that and its neighbours over several seeds, and says when nothing beats the baseline.
    Stopped or killed, the same command goes on.

    Example: gaf tune digits-cnn-sgdm --budget "400 epochs"
    """
    from gaf.common.files import plain
    from gaf.lab.engine.config import override
    from gaf.lab.reports.page import write_page as write_comparison
    from gaf.lab.reports.tune_page import write_page
    from gaf.lab.study import pool
    from gaf.lab.study.compare import compare
    from gaf.lab.study.grid import RUNS
    from gaf.lab.study.live import LiveTable
    from gaf.lab.study.recipes.laptop import hard_case
    from gaf.lab.study.settings import split
    from gaf.lab.study.tune import tune as study

    command = ["gaf", *sys.argv[1:]]
    base = hard_case() if name is None and task is None else trained(name, task)
    config = override(base, changes or [])
    folder = out or Path("runs") / f"tune-{config.name}"
    spend = study.Spend() if budget is None else study.Spend.parse(budget)
    if settings and not seeds:
        raise GafError("--settings stand beside the winner in a check: add --check 10")
    others = split(settings or [])
    if seeds:
        study.check_plan(config, others, seeds)  # an unknown name is refused before the race
    study.check_folder(folder)
    console = terminal.stderr()

    def say(text: str) -> None:
        terminal.print_line(console, text)

    def watch(title: str) -> LiveTable:
        say(title)
        return LiveTable(console, config.name)

    slots = workers or pool.slots(config.model_copy(update={"threads": config.threads or 1}))
    log = folder / RUNS / pool.LOG
    checked = None
    with terminal.resumable(command, folder), pool.Pool(slots, log, pool.gpus(config)) as processes:
        tuned = study.tune(
            config,
            folder,
            processes,
            spend=spend,
            slots=slots,
            watch=watch,
            say=say,
            command=command,
        )
        page = write_page(plain(tuned.model_dump()), folder)
        if seeds:
            winner = tuned.winner.name
            plan = study.check_plan(config, [winner, *others], seeds)
            grid = watch(f"check, {winner} and others on {seeds} fresh seeds")
            checked = compare(plan, folder / study.CHECK, processes, grid, command)
    checked_page = write_comparison(checked, folder / study.CHECK) if checked else None
    if as_json:
        check = plain(checked.model_dump()) if checked else None
        print(json.dumps({**plain(tuned.model_dump()), "check": check}))
        return 0
    show(tuned, page)
    if checked and checked_page:
        show_comparison(checked, checked_page)
    return 0


def show(tuned: Tuned, page: Path) -> None:
    """The reasoning, the table, the verdict, the line to copy, and where the page is."""
    console = terminal.stdout()
    for subject, sentence in tuned.reasons:
        terminal.print_line(console, f"{subject}: {sentence}")
    console.print(_race(tuned))
    console.print(_final(tuned))
    cost = tuned.cost
    terminal.print_line(console, tuned.verdict)
    terminal.print_line(
        console,
        f"cost: {cost.steps} steps with the probe and all seeds, {cost.share:.1%} of the "
        f"{cost.in_full} of running all {cost.candidates} candidates in full; {tuned.seconds:.0f} s",
    )
    if tuned.helps:
        terminal.print_line(console, f"\n{tuned.line}\n")
    terminal.print_line(console, f"page: {page}")


def _race(tuned: Tuned) -> Table:
    cost = tuned.cost
    table = Table(title=f"the best {SHOWN} of {len(tuned.raced)} candidates")
    table.add_column("candidate")
    for steps in (cost.first, cost.second):
        table.add_column(f"{steps} steps", justify="right")
    table.add_column("from")
    for raced in tuned.raced[:SHOWN]:
        second = ", ".join(map(_shown, raced.second))
        table.add_row(raced.name, _shown(raced.first), second, raced.source)
    return table


def _final(tuned: Tuned) -> Table:
    score = tuned.score
    table = Table(
        title=f"final: {score.name} after {tuned.cost.final} steps, {len(score.seeds)} seeds"
    )
    for column in ("setting", "scores", "the winner's gain [95 %]", "verdict"):
        table.add_column(column)
    table.add_row(tuned.winner.name, " ".join(map(_shown, score.winner)), "", "")
    for other in tuned.against:
        gain = f"{_shown(other.mean)} [{_shown(other.low)}, {_shown(other.high)}]"
        table.add_row(other.name, " ".join(map(_shown, other.scores)), gain, other.verdict)
    return table


def _shown(value: float | None) -> str:
    """A score; a dash where a run failed."""
    return "–" if value is None else f"{value:.4g}"
