"""The command line of ``gaf tune``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaf.lab.cli import terminal
from gaf.lab.cli.compare import show as show_comparison
from gaf.lab.cli.trainings import NAME, SEEDS, Changes, Workers

if TYPE_CHECKING:
    from gaf.lab.study.results import Tuned


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
    candidates: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="How many functions to try; unset: 6."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=SEEDS, help="Fresh seeds of the verdict; unset: 5.")
    ] = None,
    tuning_seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=SEEDS, help="Seeds on which each learning rate is tried; unset: 4."
        ),
    ] = None,
    changes: Changes = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Unset: runs/tune-NAME.")
    ] = None,
    workers: Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Find alpha and beta: the paper's steps (a) to (d), then its candidates against the tuned baseline.

    It probes the training without a function, fits the loss curve near the optimum and recommends values with
    reasons. The learning rates of these and of nearby candidates are tuned as the baseline's is, and the best
    is compared with the tuned baseline on fresh seeds. After a stop or a kill the same command resumes.

    Example: gaf tune digits-cnn-sgdm --candidates 4
    """
    from gaf.common.files import plain
    from gaf.lab.engine.config import override
    from gaf.lab.reports.page import write_page as write_comparison
    from gaf.lab.reports.tune_page import write_page
    from gaf.lab.study.compare import COMPARISON, read
    from gaf.lab.study.grid import RUNS
    from gaf.lab.study.live import LiveTable
    from gaf.lab.study.plan import SEEDS as FINAL_SEEDS
    from gaf.lab.study.plan import TuningPlan
    from gaf.lab.study.pool import local_pool
    from gaf.lab.study.recipes import trained
    from gaf.lab.study.recipes.laptop import hard_case
    from gaf.lab.study.tune import tune as study

    command = ["gaf", *sys.argv[1:]]
    base = hard_case() if name is None and task is None else trained(name, task)
    config = override(base, changes or [])
    folder = out or Path("runs") / f"tune-{config.name}"
    study.check_folder(folder)
    console = terminal.stderr()
    runs = folder / COMPARISON / RUNS
    with terminal.resumable(command, folder), local_pool(config, runs, workers) as processes:
        tuned = study.tune(
            config,
            folder,
            processes,
            candidates=candidates or study.CANDIDATES,
            seeds=seeds or FINAL_SEEDS,
            tuning=TuningPlan(seeds=tuning_seeds or study.TUNING_SEEDS),
            watch=LiveTable(console, config.name),
            say=lambda text: terminal.print_line(console, text),
            command=command,
        )
    comparison = read(folder / COMPARISON)
    compared = write_comparison(comparison, folder / COMPARISON)
    page = write_page(tuned, folder)
    if as_json:
        both = {**plain(tuned.model_dump()), "comparison": plain(comparison.model_dump())}
        print(json.dumps(both))
        return 0
    show_comparison(comparison, compared)
    show(tuned, page)
    return 0


def show(tuned: Tuned, page: Path) -> None:
    """The reasoning, the verdict, the line to copy, and where the page is."""
    console = terminal.stdout()
    for subject, sentence in tuned.reasons:
        terminal.print_line(console, f"{subject}: {sentence}")
    terminal.print_line(console, tuned.verdict)
    if tuned.helps:
        terminal.print_line(console, f"\n{tuned.line}\n")
    terminal.print_line(console, f"page: {page}")
