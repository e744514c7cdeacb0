"""The command line of ``gaf report``."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.cli.failing import said_in_a_sentence

if TYPE_CHECKING:
    from gaf.lab.study.comparison import Comparison
    from gaf.lab.study.table.found import Filled

WIDTH = 1000  # of what does not go to a terminal: enough for any table


class Format(str, Enum):
    """What to make of a comparison or of a table of the paper."""

    page = "page"
    table = "table"
    markdown = "markdown"
    csv = "csv"
    latex = "latex"


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Comparisons, tables or runs.")
    ],
    form: Annotated[
        Format, typer.Option("--format", help="A page in the folder, or a table on stdout.")
    ] = Format.page,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the pages' paths as JSON.")
    ] = False,
) -> int:
    """Make the page of a comparison or of a table again, or one of runs that were made one by one.

    A folder is that of a comparison, a table, a run, or one that holds some of these. Several runs make one
    page: those that differ in the seed alone are one setting, and the first one without f is the baseline.

    Example: gaf report runs/digits-cnn-sgdm-seed0
    """
    with said_in_a_sentence():
        found = _found(folders)
        if form is Format.page:
            pages = [str(_page(each, folder)) for each, folder in found]
            terminal.show(json.dumps(pages) if as_json else "\n".join(pages))
        elif as_json:
            raise GafError("--json is for pages; a table is text already")
        else:
            for number, (each, _) in enumerate(found):
                terminal.show("\n" if number else "", end="")
                _print_table(each, form)
    return 0


def _found(folders: list[Path]) -> list[tuple[Comparison | Filled, Path]]:
    """Each comparison and table that was named, and one comparison of all runs that were named."""
    from gaf.lab.engine.folder import CONFIG
    from gaf.lab.reports.gather import gather
    from gaf.lab.study.comparison import COMPARISON, read
    from gaf.lab.study.table.found import TABLE
    from gaf.lab.study.table.found import read as read_table

    compared: list[Path] = []
    tables: list[Path] = []
    runs: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise GafError(f"there is no folder {folder}")
        if (folder / COMPARISON).is_file():
            compared.append(folder)
        elif (folder / TABLE).is_file():
            tables.append(folder)
        elif (folder / CONFIG).is_file():
            runs.append(folder)
        else:
            inner = _within(folder, COMPARISON), _within(folder, TABLE)
            within = _finished(_within(folder, CONFIG))
            if not any((*inner, within)):
                raise GafError(
                    f"{folder} holds no comparison, no table and no finished run: "
                    f"there is no {COMPARISON}, no {TABLE} and no {CONFIG}"
                )
            compared += inner[0]
            tables += inner[1]
            runs += within
    found: list[tuple[Comparison | Filled, Path]] = []
    found += [(read(folder), folder) for folder in dict.fromkeys(compared)]
    found += [(read_table(folder), folder) for folder in dict.fromkeys(tables)]
    return [*found, gather(runs)] if runs else found


def _within(folder: Path, file: str) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"*/{file}"))


def _finished(runs: list[Path]) -> list[Path]:
    """Of runs that nobody named, those that are finished; the others are told."""
    from gaf.lab.engine.folder import FINISHED

    done = [run for run in runs if (run / FINISHED).is_file()]
    for run in runs:
        if run not in done:
            terminal.say(f"left out {run}, which is not finished")
    return done


def _page(each: Comparison | Filled, folder: Path) -> Path:
    from gaf.lab.reports.page import write_page
    from gaf.lab.reports.table_page import write_all
    from gaf.lab.study.table.found import Filled

    try:
        return write_all(each, folder)[0] if isinstance(each, Filled) else write_page(each, folder)
    except OSError as error:
        raise GafError(f"the page in {folder} cannot be written: {error.strerror}") from None


def _print_table(each: Comparison | Filled, form: Format) -> None:
    from gaf.lab.reports import tables
    from gaf.lab.reports.comparison_table import comparison_table
    from gaf.lab.reports.paper_table import paper_table
    from gaf.lab.study.table.found import Filled

    table = paper_table(each) if isinstance(each, Filled) else comparison_table(each)
    if form is Format.table:
        terminal.stdout(WIDTH).print(tables.TerminalTable(table))
        return
    texts = {
        Format.markdown: tables.markdown,
        Format.csv: tables.as_csv,
        Format.latex: tables.latex,
    }
    terminal.show(texts[form](table), end="")
