"""The command line of ``gaf report``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gaf.common.errors import GafError
from gaf.lab.cli import terminal

if TYPE_CHECKING:
    from gaf.lab.study.results import Comparison, Filled

Format = Literal["page", "table", "markdown", "csv", "latex"]


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Comparisons, tables or runs.")
    ],
    form: Annotated[
        Format, typer.Option("--format", help="A page in the folder, or a table on stdout.")
    ] = "page",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the pages' paths as JSON.")
    ] = False,
) -> int:
    """Make the page of a comparison or of a table again, or one of runs that were made one by one.

    A folder is that of a comparison, a table, a run, or one that holds some of these. Several runs make one
    page: those that differ in the seed alone are one setting, and the first one without f is the baseline.

    Example: gaf report runs/digits-cnn-sgdm-seed0
    """
    studies = _studies(folders)
    if form == "page":
        pages = [str(_page(study, folder)) for study, folder in studies]
        terminal.show(json.dumps(pages) if as_json else "\n".join(pages))
    elif as_json:
        raise GafError("--json is for pages; a table is text already")
    else:
        for number, (study, _) in enumerate(studies):
            terminal.show("\n" if number else "", end="")
            _print_table(study, form)
    return 0


def _studies(folders: list[Path]) -> list[tuple[Comparison | Filled, Path]]:
    """Each comparison and table that was named, and one comparison of all runs that were named."""
    from gaf.lab.engine.folder import CONFIG
    from gaf.lab.reports.gather import gather
    from gaf.lab.study import compare, results
    from gaf.lab.study.results import Comparison, Filled

    kinds = (Comparison.file, Filled.file, CONFIG)
    places: dict[str, list[Path]] = {kind: [] for kind in kinds}
    for folder in folders:
        if not folder.is_dir():
            raise GafError(f"there is no folder {folder}")
        kind = next((kind for kind in kinds if (folder / kind).is_file()), None)
        if kind:
            places[kind].append(folder)
            continue
        inner = {kind: sorted(path.parent for path in folder.glob(f"*/{kind}")) for kind in kinds}
        inner[CONFIG] = _finished(inner[CONFIG])
        if not any(inner.values()):
            raise GafError(
                f"{folder} holds no comparison, no table and no finished run: "
                f"there is no {Comparison.file}, no {Filled.file} and no {CONFIG}"
            )
        for kind, within in inner.items():
            places[kind] += within
    studies: list[tuple[Comparison | Filled, Path]] = [
        *((compare.read(folder), folder) for folder in dict.fromkeys(places[Comparison.file])),
        *((results.read(folder, Filled), folder) for folder in dict.fromkeys(places[Filled.file])),
    ]
    return [*studies, gather(places[CONFIG])] if places[CONFIG] else studies


def _finished(runs: list[Path]) -> list[Path]:
    """The finished ones of runs in a named folder; a line names the others."""
    from gaf.lab.engine.folder import FINISHED

    for run in runs:
        if not (run / FINISHED).is_file():
            terminal.say(f"left out {run}, which is not finished")
    return [run for run in runs if (run / FINISHED).is_file()]


def _page(study: Comparison | Filled, folder: Path) -> Path:
    from gaf.lab.reports.page import write_page
    from gaf.lab.reports.table_page import write_all
    from gaf.lab.study.results import Filled

    try:
        if isinstance(study, Filled):
            return write_all(study, folder)[0]
        return write_page(study, folder)
    except OSError as error:
        raise GafError(f"the page in {folder} cannot be written: {error.strerror}") from None


def _print_table(study: Comparison | Filled, form: Format) -> None:
    from gaf.lab.reports import tables
    from gaf.lab.reports.comparison_table import comparison_table
    from gaf.lab.reports.paper_table import paper_table
    from gaf.lab.study.results import Filled

    table = paper_table(study) if isinstance(study, Filled) else comparison_table(study)
    if form == "table":
        terminal.stdout().print(tables.TerminalTable(table))
        return
    texts = {"markdown": tables.markdown, "csv": tables.as_csv, "latex": tables.latex}
    terminal.show(texts[form](table), end="")
