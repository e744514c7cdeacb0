"""The command line of ``gaf report``."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gaf.cli.failing import said_in_a_sentence

if TYPE_CHECKING:
    from gaf.experiments.comparison import Comparison

WIDTH = 1000  # of what does not go to a terminal: enough for any table


class Format(str, Enum):
    """What to make of a comparison."""

    page = "page"
    table = "table"
    markdown = "markdown"
    csv = "csv"
    latex = "latex"


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Comparisons or runs.")
    ],
    form: Annotated[
        Format, typer.Option("--format", help="A page in the folder, or a table on stdout.")
    ] = Format.page,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the pages' paths as JSON.")
    ] = False,
) -> int:
    """Make the page of a comparison again, or one of runs that were made one by one.

    A folder is that of a comparison, of a run, or one that holds some of these. Several runs make one page:
    those that differ in the seed alone are one setting, and the first setting without f is the baseline.

    Example: gaf report runs/digits-cnn-sgdm-seed0
    """
    with said_in_a_sentence():
        found = _comparisons(folders)
        if form is Format.page:
            pages = [str(_page(comparison, folder)) for comparison, folder in found]
            print(json.dumps(pages) if as_json else "\n".join(pages))
        elif as_json:
            raise ValueError("--json is for pages; a table is text already")
        else:
            print("\n".join(_table(comparison, form) for comparison, _ in found), end="")
    return 0


def _comparisons(folders: list[Path]) -> list[tuple[Comparison, Path]]:
    """Each comparison that was named, and one of all runs that were named."""
    from gaf.experiments.comparison import COMPARISON, read
    from gaf.experiments.engine.folder import CONFIG
    from gaf.reports.gather import gather

    compared: list[Path] = []
    runs: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"there is no folder {folder}")
        if (folder / COMPARISON).is_file():
            compared.append(folder)
        elif (folder / CONFIG).is_file():
            runs.append(folder)
        else:
            inner = _within(folder, COMPARISON), _finished(_within(folder, CONFIG))
            if not any(inner):
                raise ValueError(
                    f"{folder} holds no comparison and no finished run: "
                    f"there is no {COMPARISON} and no {CONFIG}"
                )
            compared += inner[0]
            runs += inner[1]
    found = [(read(folder), folder) for folder in dict.fromkeys(compared)]
    return [*found, gather(runs)] if runs else found


def _within(folder: Path, file: str) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"*/{file}"))


def _finished(runs: list[Path]) -> list[Path]:
    """Of runs that nobody named, those that are finished; the others are told."""
    from gaf.experiments.engine.folder import FINISHED

    done = [run for run in runs if (run / FINISHED).is_file()]
    for run in runs:
        if run not in done:
            print(f"gaf: left out {run}, which is not finished", file=sys.stderr)
    return done


def _page(comparison: Comparison, folder: Path) -> Path:
    from gaf.reports.page import write_page

    try:
        return write_page(comparison, folder)
    except OSError as error:
        raise ValueError(f"the page in {folder} cannot be written: {error.strerror}") from None


def _table(comparison: Comparison, form: Format) -> str:
    from gaf.reports import tables

    if form is Format.table:
        wide = None if sys.stdout.isatty() else WIDTH
        console = Console(width=wide)
        with console.capture() as capture:
            console.print(tables.terminal(comparison))
        return capture.get()
    texts = {
        Format.markdown: tables.markdown,
        Format.csv: tables.as_csv,
        Format.latex: tables.latex,
    }
    return texts[form](comparison)
