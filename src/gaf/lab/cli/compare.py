"""The command line of ``gaf compare``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaf.lab.cli import terminal
from gaf.lab.cli.trainings import NAME, SEEDS, Changes, Workers
from gaf.lab.study.trainings import trained

if TYPE_CHECKING:
    from gaf.lab.study.results import Comparison


def compare(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar=NAME,
            help="What to train: a recipe, see gaf train --list, or a task of your own, from this folder. "
            "Unset: digits.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIST",
            help="Beside the baseline, such as 'adam, arctan(0.1, 20)@momentum'; may repeat.",
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=SEEDS, help="How many; unset: 5.")] = None,
    changes: Changes = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Unset: runs/compare-NAME.")
    ] = None,
    workers: Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> int:
    """Does a gradient activation function help? Settings over several seeds, paired, with a verdict each.

    The matched control of each function, f replaced by its slope, is always among the settings. Stopped
    or killed, the same command goes on: finished runs are not repeated.

    Example: gaf compare digits-cnn-sgdm --settings "tuned, adam, presets" --seeds 10
    """
    from gaf.common.files import plain
    from gaf.lab.engine.config import override
    from gaf.lab.reports.page import write_page
    from gaf.lab.study import compare as study
    from gaf.lab.study import pool
    from gaf.lab.study.live import LiveTable
    from gaf.lab.study.settings import split

    command = ["gaf", *sys.argv[1:]]
    given = study.digits() if name is None else [(trained(name), study.SETTINGS)]
    plans: dict[Path, study.Plan] = {}
    for config, defaults in given:
        base = override(config, changes or [])
        count = range(base.seed, base.seed + (seeds or study.SEEDS))
        plan = study.Plan(base, tuple(split(settings or [])) or defaults, tuple(count))
        folder = out or Path("runs") / f"compare-{plan.title}"
        plans[folder / plan.title if out and name is None else folder] = plan
    for folder, plan in plans.items():
        study.check_folder(folder, plan)
    comparisons: dict[Path, Comparison] = {}
    with terminal.resumable(command, *plans):
        first, base = next((folder, plan.base) for folder, plan in plans.items())
        log = first / study.RUNS / pool.LOG
        with pool.Pool(workers or pool.slots(base), log, pool.gpus(base)) as processes:
            for folder, plan in plans.items():
                watch = LiveTable(terminal.stderr(), plan.title)
                comparisons[folder] = study.compare(plan, folder, processes, watch, command)
    pages = [write_page(comparison, folder) for folder, comparison in comparisons.items()]
    if as_json:
        content = [plain(comparison.model_dump()) for comparison in comparisons.values()]
        print(json.dumps(content if len(content) > 1 else content[0]))
        return 0
    for comparison, page in zip(comparisons.values(), pages, strict=True):
        show(comparison, page)
    return 0


def show(comparison: Comparison, page: Path) -> None:
    """The table, a sentence for each setting, and where the page is."""
    from gaf.lab.reports.comparison_table import comparison_table
    from gaf.lab.reports.tables import TerminalTable

    console = terminal.stdout()
    console.print(TerminalTable(comparison_table(comparison)))
    for row in comparison.rows:
        terminal.print_line(console, f"  {row.setting}: {row.sentence}")
    terminal.print_line(console, f"\npage: {page}\n")
