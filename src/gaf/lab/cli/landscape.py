"""The command line of ``gaf landscape``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.cli.trainings import trained_in


def landscape(
    checkpoint: Annotated[
        Path | None,
        typer.Argument(
            metavar="CHECKPOINT",
            help="The folder of a run, whose newest checkpoint counts, or of a checkpoint.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="CHECKPOINT", help="Add the line to another one of the same model."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="The run's task, where it is your own."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Unset: landscape/ in the run's folder.")
    ] = None,
    radius: Annotated[
        float, typer.Option(help="How far; at 1 filters are changed by their own length.")
    ] = 0.5,
    samples: Annotated[
        int, typer.Option(min=1, help="Samples of the training set, whose mean loss is shown.")
    ] = 512,
    side: Annotated[
        int, typer.Option(max=1001, help="Points of the surface in each direction.")
    ] = 25,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Seed of the random directions.")
    ] = 0,
    biases_and_norms: Annotated[
        bool, typer.Option("--biases-and-norms", help="Move these too.")
    ] = False,
    bench: Annotated[
        bool, typer.Option("--bench", help="Only time slices against hand-written loops.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> int:
    """Draw the loss around a checkpoint: a curve, a surface, the shape, as PNG, SVG and a page.

    Directions are random and on the scale of each filter (Li et al., 2018). Nothing is trained, and the
    checkpoint is only read.

    Example: gaf landscape runs/digits-cnn-sgdm-seed0
    """
    from gaf.common.files import plain
    from gaf.lab.engine.checkpoint import run_folder
    from gaf.lab.reports.landscape_page import write_all
    from gaf.lab.study.landscape import look, reached

    if bench:
        return _bench(as_json)
    if checkpoint is None:
        raise GafError("name a run's folder or one of its checkpoints, or use --bench")
    at = reached(checkpoint, trained_in(run_folder(checkpoint), task))
    terminal.print_line(
        terminal.stderr(), f"the loss around step {at.step} of {at.config.name} ..."
    )
    numbers = look(
        at,
        samples=samples,
        side=side,
        to=to,
        radius=radius,
        seed=seed,
        biases_and_norms=biases_and_norms,
    )
    folder = out or run_folder(checkpoint) / "landscape"
    try:
        paths = write_all(numbers, folder)
    except OSError as error:
        raise GafError(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    if as_json:
        print(json.dumps(plain({**numbers, "files": [str(path) for path in paths]})))
    else:
        terminal.show(numbers["said"])
        terminal.show("\n".join(map(str, paths)))
    return 0


def _bench(as_json: bool) -> int:
    from gaf.lab.bench import machine, slices
    from gaf.lab.bench.timing import sheet

    cases = slices.measure(terminal.stderr())
    if as_json:
        print(json.dumps([asdict(case) for case in cases]))
        return 0
    rows = (
        (
            *(case.case, case.method, f"{1e3 * case.seconds:.1f}", f"{case.to_plain:.2f}"),
            *(f"{case.to_deep:.2f}", f"{case.difference:.0e}"),
        )
        for case in cases
    )
    columns = ("case", "method", "ms", "× plain loop", "× deep copies", "difference")
    title = "slices against hand-written loops, interleaved; one thread"
    table = sheet(title, columns, rows, left=2)
    terminal.stdout().print(machine.line(machine.facts()), table)
    return 0
