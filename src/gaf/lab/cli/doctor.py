"""The command line of ``gaf doctor``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.cli.trainings import Launch, ScriptArguments

if TYPE_CHECKING:
    from gaf.lab.engine.doctor import Diagnosis


def doctor(
    script: Annotated[
        Path,
        typer.Argument(
            metavar="SCRIPT",
            help="A training script of your own, or what gaf.Monitor.write_jsonl has written.",
            show_default=False,
        ),
    ],
    arguments: ScriptArguments = None,
    steps: Annotated[
        int,
        typer.Option(
            min=1,
            max=100_000,
            help="Steps of the optimizer to observe, after which the script is ended.",
        ),
    ] = 300,
    launch: Launch = "",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="For the page and the output of the script; unset: runs/doctor-NAME.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as JSON.")] = False,
) -> int:
    """Is my clipping doing anything? Observes an unchanged script for a few hundred steps.

    Every torch optimizer that steps gets a monitor, and calls of clip_grad_norm_ are recorded. Findings and
    what to try are printed and written to a page. The script writes its files as usual, and is then ended as
    by Ctrl-C; what it prints is in stdout.txt beside the page.

    Example: gaf doctor train.py -- --epochs 10
    """
    from gaf.common.files import plain
    from gaf.lab.engine.doctor import diagnose_file, watch_script
    from gaf.lab.engine.signals import listening
    from gaf.lab.reports.doctor_page import write_page

    folder = out or Path("runs") / f"doctor-{script.stem}"
    command = ["gaf", *sys.argv[1:]]
    if script.suffix == ".jsonl":
        if arguments or launch:
            raise GafError("--launch and arguments are for a script, not for a monitor's records")
        diagnosis = diagnose_file(script)
        folder.mkdir(parents=True, exist_ok=True)
    else:
        with terminal.resumable(command, folder), listening() as wish:
            folder.mkdir(parents=True, exist_ok=True)
            terminal.say(f"watching {script} for {steps} steps")
            diagnosis = watch_script(
                *(str(script), arguments or (), launch, folder), steps=steps, wish=wish
            )
    page = write_page(diagnosis, folder, command)
    if as_json:
        print(json.dumps({**plain(diagnosis.as_dict()), "page": str(page)}))
    else:
        show(diagnosis, page)
    return 0


def show(diagnosis: Diagnosis, page: Path) -> None:
    """What was found, what to try, the layers, and where the page is."""
    from gaf.lab.reports.doctor_page import headline, table, title_of

    console = terminal.stdout()
    terminal.print_line(console, headline(diagnosis))
    if diagnosis.error:
        terminal.print_line(console, f"The script ended before that by itself: {diagnosis.error}")
    for number, watched in enumerate(diagnosis.optimizers):
        terminal.print_line(console, f"\n{title_of(diagnosis, number)}")
        for finding in watched.findings:
            terminal.print_line(
                console, f"{'problem' if finding.problem else 'note'}: {finding.sentence}"
            )
            if finding.advice:
                terminal.print_line(console, f"  to try: {finding.advice}")
        if not watched.findings:
            terminal.print_line(console, "nothing stands out")
        console.print(table(watched))
    terminal.print_line(console, f"\npage: {page}")
