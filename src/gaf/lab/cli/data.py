"""``gaf data``: list the datasets, get one, check one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from gaf.lab.cli import terminal
from gaf.lab.cli.trainings import WORKERS
from gaf.lab.data import catalog
from gaf.lab.data.check import DatasetFindings, check
from gaf.lab.data.files import DatasetMissing
from gaf.lab.data.get import get
from gaf.lab.data.layouts import Dataset, default_root
from gaf.lab.engine.progress import Transfer

SHOWN = 20  # problems that a check prints
DAMAGED = 1
INTERRUPTED = 130

Name = Annotated[str, typer.Argument(help="A name of gaf data list, or imagefolder:PATH.")]
Root = Annotated[
    Path | None,
    typer.Option(
        help="The folder with the datasets; unset: the one GAF_DATA names, or the user's cache."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

data = typer.Typer(help="Get and check datasets.")


@data.command("list")
def list_(root: Root = None, as_json: Json = False) -> int:
    """List the datasets, and where they are on this machine.

    Example: gaf data list
    """
    root = root or default_root()
    rows = [
        {"name": dataset.name, "title": dataset.title, **_where(dataset, root)}
        for dataset in catalog.DATASETS.values()
    ]
    table = Table("name", "what it is", "here", title=f"datasets in {root}")
    for row in rows:
        table.add_row(row["name"], row["title"], row["folder"] or f"no: {row['missing']}")
    _publish(table, {"root": str(root), "datasets": rows}, as_json)
    return 0


@data.command("get")
def get_(
    name: Name,
    layout: Annotated[
        str | None,
        typer.Option(help="CIFAR's layout, binary or python; unset: what is there, else binary."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="A folder with the same files, instead of the official address."
        ),
    ] = None,
    root: Root = None,
    as_json: Json = False,
) -> int:
    """Download a dataset from its official address, check it and unpack it.

    After a stop or a lost connection the same command resumes.

    Example: gaf data get cifar100
    """
    try:
        with _sentences(), Transfer(terminal.stderr()) as transfer:
            got = get(
                catalog.find(name),
                root or default_root(),
                transfer.announce,
                layout=layout,
                mirror=url,
                say=transfer.say,
            )
    except KeyboardInterrupt:
        terminal.say("stopped; the same command resumes from here")
        return INTERRUPTED
    state = "is in" if got.downloaded else "was already in"
    _publish(f"{got.dataset} ({got.layout}) {state} {got.folder}", asdict(got), as_json)
    return 0


@data.command("check")
def check_(
    name: Name,
    workers: Annotated[
        int, typer.Option(min=0, max=WORKERS, help="Processes that read image folders.")
    ] = 2,
    root: Root = None,
    as_json: Json = False,
) -> int:
    """Verify what is on disk: records, labels, images, checksums where they are published.

    Exit status 0 where all is well (also for a subset, which it says), 1 where something is damaged.

    Example: gaf data check cifar100
    """
    try:
        with _sentences(), Transfer(terminal.stderr()) as transfer:
            findings = check(
                catalog.find(name), root or default_root(), transfer.count, workers=workers
            )
    except KeyboardInterrupt:
        return INTERRUPTED
    _publish(_lines(findings), {**asdict(findings), "state": findings.state}, as_json)
    return DAMAGED if findings.problems else 0


def _where(dataset: Dataset, root: Path) -> dict[str, str]:
    """The folder of a dataset, or how to get it."""
    if not dataset.layouts:
        return {"folder": "embedded", "missing": ""}
    try:
        return {"folder": str(dataset.place(root)[1]), "missing": ""}
    except DatasetMissing:
        return {"folder": "", "missing": dataset.how_to_get(root)}


def _lines(findings: DatasetFindings) -> str:
    """The findings in lines."""
    place = f" ({findings.layout}) in {findings.folder}" if findings.folder else ""
    lines = [f"{findings.dataset}{place}: {findings.state}"]
    for split in findings.splits:
        of = f" of {split.published}" if split.published is not None else ""
        lines.append(f"  {split.name}: {split.samples}{of} samples, {split.classes} classes")
    for file in findings.files:
        judged = {True: "as published", False: "not the published one", None: "none is published"}
        lines.append(f"  {file.name}: {file.size} bytes, md5 {file.md5}, {judged[file.matches]}")
    lines += [f"  problem: {problem}" for problem in findings.problems[:SHOWN]]
    more = len(findings.problems) - SHOWN
    if more > 0:
        lines.append(f"  and {more} more problems: --json names them all")
    return "\n".join(lines)


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn what is wrong with data, disk or installation into one line and exit status 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        needs = f"this dataset needs {error.name}, which is not installed"
        raise typer.TyperException(f"{needs}: pip install 'activated-gradients[lab]'") from None
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise typer.TyperException(f"{place}{error.strerror or error}") from None


def _publish(shown: Any, content: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(content, indent=2))
        return
    if isinstance(shown, str):  # a file name may hold bytes that are no text
        shown = shown.encode(errors="backslashreplace").decode()
    console = terminal.stdout()
    console.print(shown, highlight=False, soft_wrap=isinstance(shown, str))
