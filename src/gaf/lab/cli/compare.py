"""The command line of ``gaf compare``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.cli.trainings import SEEDS, Changes, Launch, ScriptArguments, Workers

if TYPE_CHECKING:
    from gaf.lab.study.plan import Plan, TuningPlan
    from gaf.lab.study.results import Comparison


def compare(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE, MODULE:FUNCTION or SCRIPT",
            help="What to train: a recipe, see gaf train --list, a task of your own, from this folder, or a "
            "training script with gaf.trial in it. Unset: digits.",
            show_default=False,
        ),
    ] = None,
    arguments: ScriptArguments = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIST",
            help="Rules beside the baseline, such as 'adam, arctan(0.1, 20)@momentum'; may repeat.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=SEEDS, help="Fresh seeds of the verdict; unset: 5.")
    ] = None,
    rates: Annotated[
        int | None,
        typer.Option(help="Learning rates tried for each rule, a factor of 3 apart; unset: 7."),
    ] = None,
    tuning_seeds: Annotated[
        int | None, typer.Option(help="Seeds on which each rate is tried; unset: 2.")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="How far below the baseline's best score a window of rates reaches; unset: 1.",
        ),
    ] = None,
    at_given_rate: Annotated[
        bool, typer.Option("--at-given-rate", help="Tune nothing: every rule at its usual rate.")
    ] = False,
    launch: Launch = "",
    changes: Changes = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the comparison; unset: runs/compare-NAME."),
    ] = None,
    workers: Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> int:
    """Does a gradient activation function help? Every rule tuned alike, then judged on fresh seeds.

    The learning rate of each rule, the baseline's too, is chosen from the same grid, on validation data. Then
    each runs on new seeds at its two best rates, and is compared with the tuned baseline on test data.
    After a stop or a kill the same command resumes: finished runs are not repeated.

    Example: gaf compare digits-cnn-sgdm --settings "adam, arctan(0.1, 20), auto" --seeds 10
    Example: gaf compare train.py --seeds 5 -- --epochs 10
    """
    from gaf.common.files import plain
    from gaf.lab.engine.config import override
    from gaf.lab.reports.page import write_page
    from gaf.lab.study.compare import compare_here, default_folder
    from gaf.lab.study.plan import SEEDS as FINAL_SEEDS
    from gaf.lab.study.plan import SETTINGS, Plan, digits, table_seeds
    from gaf.lab.study.recipes import trained
    from gaf.lab.study.settings import split
    from gaf.lab.study.words import answer

    command = ["gaf", *sys.argv[1:]]
    tuning = _tuning(rates, tuning_seeds, within, at_given_rate)
    if name is None and (arguments or launch):
        raise GafError(
            "--launch and arguments are for a script: gaf compare train.py -- --epochs 10"
        )
    if name is None:
        given = digits()
    else:
        given = [(trained(name, arguments=arguments or (), launch=launch), SETTINGS)]
    plans: dict[Path, Plan] = {}
    for config, defaults in given:
        base = override(config, changes or [])
        numbers = table_seeds(base, seeds or FINAL_SEEDS)
        plan = Plan(base, tuple(split(settings or [])) or defaults, numbers, tuning)
        folder = out or default_folder(plan)
        plans[folder / plan.title if out and name is None else folder] = plan
    with terminal.resumable(command, *plans):
        comparisons = compare_here(plans, terminal.stderr(), workers, command)
    pages = [write_page(comparison, folder) for folder, comparison in comparisons.items()]
    if as_json:
        content = [
            {"answer": answer(comparison), **plain(comparison.model_dump())}
            for comparison in comparisons.values()
        ]
        print(json.dumps(content if len(content) > 1 else content[0]))
        return 0
    for comparison, page in zip(comparisons.values(), pages, strict=True):
        show(comparison, page)
    return 0


def _tuning(
    rates: int | None, seeds: int | None, within: float | None, at_given_rate: bool
) -> TuningPlan | None:
    from gaf.lab.study.plan import TuningPlan

    given = {"rates": rates, "seeds": seeds, "within": within}
    changed = {key: value for key, value in given.items() if value is not None}
    if not at_given_rate:
        return TuningPlan(**changed)
    if changed:
        raise GafError(
            "--at-given-rate tunes nothing: leave out --rates, --tuning-seeds and --within"
        )
    return None


def show(comparison: Comparison, page: Path) -> None:
    """The answer, the curve over the learning rate, the table, and where the page is."""
    from gaf.lab.reports.comparison_terminal import TerminalComparison

    console = terminal.stdout()
    console.print(TerminalComparison(comparison))
    terminal.print_line(console, f"\npage: {page}\n")
