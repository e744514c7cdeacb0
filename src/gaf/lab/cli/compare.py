"""The command line of ``gaf compare``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gaf.lab.cli import terminal
from gaf.lab.cli.failing import ends_well, said_in_a_sentence
from gaf.lab.cli.report import WIDTH
from gaf.lab.cli.trained import NAME, SEEDS, WORKERS, trained

if TYPE_CHECKING:
    from gaf.lab.study.comparison import Comparison
    from gaf.lab.study.plan import Plan


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
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the config; may repeat."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Unset: runs/compare-NAME.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=WORKERS, help="Runs at once; unset: as many as the machine holds."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> int:
    """Does a gradient activation function help? Settings over several seeds, paired, with a verdict each.

    The matched control of each function, f replaced by its slope, is always among the settings. Stopped
    or killed, the same command goes on: finished runs are not repeated.

    Example: gaf compare digits-cnn-sgdm --settings "tuned, adam, presets" --seeds 10
    """
    command = ["gaf", *sys.argv[1:]]
    with said_in_a_sentence():
        plans = _plans(name, settings or [], seeds, changes or [])
        return _compare(plans, _folders(plans, name, out), workers, as_json, command)


def _plans(
    name: str | None, settings: list[str], seeds: int | None, changes: list[str]
) -> list[Plan]:
    from gaf.lab.engine.config import override
    from gaf.lab.study import plan
    from gaf.lab.study.settings import split

    given = plan.digits() if name is None else [(trained(name), plan.SETTINGS)]
    found = []
    for config, names in given:
        base = override(config, changes)
        chosen = tuple(split(settings)) or names
        count = range(base.seed, base.seed + (seeds or plan.SEEDS))
        found.append(plan.Plan(base, chosen, tuple(count)))
    return found


def _folders(plans: Sequence[Plan], name: str | None, out: Path | None) -> list[Path]:
    if out is None:
        return [Path("runs") / f"compare-{plan.title}" for plan in plans]
    return [out] if name is not None else [out / plan.title for plan in plans]


def _compare(
    plans: Sequence[Plan],
    folders: Sequence[Path],
    workers: int | None,
    as_json: bool,
    command: Sequence[str],
) -> int:
    from gaf.common.files import plain
    from gaf.lab.study import compare, pool
    from gaf.lab.study.live import LiveTable

    for plan, folder in zip(plans, folders, strict=True):
        compare.check_folder(folder, plan)
    base = plans[0].base
    found: list[Comparison] = []
    with ends_well(command, *folders):
        log = folders[0] / compare.RUNS / pool.LOG
        with pool.Pool(workers or pool.slots(base), log, pool.gpus(base)) as processes:
            for plan, folder in zip(plans, folders, strict=True):
                watch = LiveTable(terminal.stderr())
                found.append(compare.compare(plan, folder, processes, watch, command))
    pages = [_page(each, folder) for each, folder in zip(found, folders, strict=True)]
    if as_json:
        content = [plain(each.model_dump()) for each in found]
        print(json.dumps(content if len(content) > 1 else content[0]))
        return 0
    for comparison, page in zip(found, pages, strict=True):
        show(comparison, page)
    return 0


def _page(comparison: Comparison, folder: Path) -> Path:
    from gaf.lab.reports.page import write_page

    return write_page(comparison, folder)


def show(comparison: Comparison, page: Path) -> None:
    """The table, a sentence for each setting, and where the page is."""
    from gaf.lab.reports.comparison_table import comparison_table
    from gaf.lab.reports.tables import TerminalTable

    console = terminal.stdout(WIDTH)
    console.print(TerminalTable(comparison_table(comparison)))
    for row in comparison.rows:
        console.print(Text(f"  {row.setting}: {row.sentence}"), soft_wrap=True)
    console.print(Text(f"\npage: {page}\n"), soft_wrap=True)
