"""The command line of ``gaf bench``."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from rich.console import Console, RenderableType

from gaf.common.files import write_whole
from gaf.kernels import native
from gaf.lab.bench import kernels, machine, report
from gaf.lab.bench.memory import fits, free_memory
from gaf.lab.bench.run import MILLIONS, QUICK_MILLIONS, BenchPlan, run
from gaf.lab.bench.shapes import SHAPES
from gaf.lab.cli import terminal

INTERRUPTED = 130
QUICK_BUDGET = 8.0  # seconds for one optimizer on one list of tensors

Choice = Literal["resnet50", "transformer", "tiny", "all"]


def bench(
    shapes: Annotated[
        Choice | None,
        typer.Option(
            help="Lists of tensors to time; unset: all, or with --quick resnet50 and tiny."
        ),
    ] = None,
    with_growth: Annotated[
        bool, typer.Option("--growth", help="Add the growth from 1 M to 200 M parameters.")
    ] = False,
    training: Annotated[
        bool, typer.Option("--training", help="Add the share of a whole training step.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Under a minute: fused SGD and Adam, few repetitions.")
    ] = False,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Repetitions; unset: 21, or 7 with --quick. With six or more, what a target judges is "
            "repeated until the interval of its ratio is within 3 % (up to ten times as often).",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Threads; unset: as many as torch takes.")
    ] = None,
    only_engine: Annotated[
        bool,
        typer.Option("--engine", help="Only time the training engine against a bare loop."),
    ] = False,
    only_grid: Annotated[
        bool, typer.Option("--grid", help="Only time runs side by side against one by one.")
    ] = False,
    only_detection: Annotated[
        bool,
        typer.Option("--detection", help="Only time SSD's matching, loss, decoding, suppression."),
    ] = False,
    only_auto: Annotated[
        bool,
        typer.Option("--auto", help="Only time gaf.Auto against the same f with fixed values."),
    ] = False,
    only_guard: Annotated[
        bool,
        typer.Option(
            "--guard", help="Only time fused steps with a gaf.Guard against those without."
        ),
    ] = False,
    only_kernels: Annotated[
        bool, typer.Option("--kernels", help="Only show which kernels this machine has.")
    ] = False,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="PATH", help="Write the results there as JSON.")
    ] = None,
    save: Annotated[
        bool,
        typer.Option(
            "--save", help="Write them to benchmarks/results/, named by date and machine."
        ),
    ] = False,
) -> int:
    """Time a step against torch's own, clipping, the authors' formulation and the speed of memory.

    All in one run, on the CPU, in interleaved repetitions: ratios are what to read, not milliseconds.

    Example: gaf bench --shapes resnet50 --json bench.json
    """
    _check_folders(json_path, save)
    _check_instruction_set()
    if threads is not None:
        torch.set_num_threads(threads)
    if only_kernels:
        known = kernels.kernels()
        terminal.stdout().print(kernels.table(known))
        if json_path is not None:
            report.write_record(json_path, known)
        return 0
    for what, chosen, count, quick_count in (
        ("engine", only_engine, 15, 5),
        ("grid", only_grid, 7, 3),
        ("detection", only_detection, 15, 5),
        ("auto", only_auto, 21, 7),
        ("guard", only_guard, 21, 7),
    ):
        if chosen:
            default = quick_count if quick else count
            return _time_trainings(what, repeats or default, json_path, save)
    names = tuple(SHAPES) if shapes in (None, "all") else (shapes,)
    if quick and shapes is None:
        names = ("resnet50", "tiny")
    _check_memory(names)
    measured = run(_plan(names, with_growth, training, quick, repeats), terminal.stderr())
    stem = machine.label(measured.about)
    _publish(report.tables(measured), report.as_dict(measured), json_path, save, stem)
    return 0 if measured.complete else INTERRUPTED


def _plan(
    names: tuple[str, ...], with_growth: bool, training: bool, quick: bool, repeats: int | None
) -> BenchPlan:
    if quick:
        return BenchPlan(
            names,
            optimizers=("SGD", "Adam"),
            implementations=("fused",),
            repeats=repeats or 7,
            budget=QUICK_BUDGET,
            memory_functions=("arctan",),
            growth=QUICK_MILLIONS if with_growth else (),
            training=training,
        )
    sizes = MILLIONS if with_growth else ()
    busy = "resnet50" in names
    return BenchPlan(names, repeats=repeats or 21, growth=sizes, training=training, busy=busy)


def _check_folders(json_path: Path | None, save: bool) -> None:
    """Refuse before an hour of measuring what cannot be written after it."""
    if json_path is not None and (json_path.is_dir() or not json_path.absolute().parent.is_dir()):
        reason = "it is a folder" if json_path.is_dir() else "its folder does not exist"
        raise typer.BadParameter(f"{json_path} cannot be written: {reason}", param_hint="--json")
    if save and not report.RESULTS.parent.is_dir():
        raise typer.BadParameter(
            "there is no folder benchmarks/ here; use --json", param_hint="--save"
        )


def _check_instruction_set() -> None:
    """GAF_ISA, which the kernels read, may name one that this machine does not have."""
    try:
        if native.INSTRUCTION_SETS:
            native.instruction_set()
    except RuntimeError as error:
        raise typer.BadParameter(str(error), param_hint="GAF_ISA") from None


def _check_memory(names: tuple[str, ...]) -> None:
    for name in names:
        if not fits(SHAPES[name], free_memory()):
            message = f"{name} does not fit into the free memory of this machine"
            raise typer.BadParameter(message, param_hint="--shapes")


def _time_trainings(what: str, repeats: int, json_path: Path | None, save: bool) -> int:
    """``engine``, ``grid``, ``detection``, ``auto`` or ``guard``: what is timed by itself."""
    try:
        module = importlib.import_module(f"gaf.lab.bench.{what}")
        timings = module.measure(repeats, terminal.stderr())
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("gaf"):
            raise
        message = f"needs {error.name}: pip install 'activated-gradients[lab]'"
        raise typer.BadParameter(message, param_hint=f"--{what}") from None
    _publish(module.table(timings), timings, json_path, save, f"{machine.label(timings)}-{what}")
    return 0


def _publish(
    shown: RenderableType, content: dict[str, Any], json_path: Path | None, save: bool, stem: str
) -> None:
    console = terminal.stdout()
    console.print(shown)
    if json_path is not None:
        report.write_record(json_path, content)
    if save:
        report.RESULTS.mkdir(exist_ok=True)
        report.write_record(report.RESULTS / f"{stem}.json", content)
        text = io.StringIO()
        Console(file=text, width=terminal.WIDTH, highlight=False).print(shown)
        write_whole(report.RESULTS / f"{stem}.txt", text.getvalue().encode())
        console.print(f"written: {report.RESULTS / stem}.json and .txt")
