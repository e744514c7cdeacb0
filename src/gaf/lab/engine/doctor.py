"""Watch a script of the user's own, or read what a monitor has written, and say what was seen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from gaf.common.errors import GafError
from gaf.common.files import check_texts, number, read_json, read_whole, write_json
from gaf.lab.engine.script import (
    STDERR,
    STDOUT,
    TRIAL,
    ScriptFailed,
    last_line,
    run_script,
    script_config,
    trial_of,
)
from gaf.lab.engine.signals import Interrupted, Wish
from gaf.lab.tasks.script import Script
from gaf.optim.diagnosis import GradientFinding, diagnose
from gaf.trials.request import REQUEST
from gaf.trials.watch import RECORDS, WATCH, WATCHED

STEPS = 300  # enough for shares in percent, and a minute of most trainings
LARGEST = 256 << 20  # bytes of a monitor's file
GRADIENTS = ("step", "group", "name", "dtype", "elements", "zeros", "nonfinite", "norm", "max")
CLIP = ("step", "norm", "max_norm")


@dataclass(frozen=True)
class Watched:
    """What was seen of one optimizer."""

    name: str | None
    every: int
    records: list[dict[str, Any]]
    clips: list[dict[str, Any]]

    @property
    def findings(self) -> list[GradientFinding]:
        """Problems first."""
        return diagnose(self.records, self.clips, self.name)


@dataclass(frozen=True)
class Diagnosis:
    """What was seen of a training: ``error`` says how its script failed, None where it did not."""

    title: str
    steps: int
    optimizers: list[Watched]
    error: str | None = None

    @property
    def problems(self) -> list[GradientFinding]:
        """Over all optimizers."""
        return [f for watched in self.optimizers for f in watched.findings if f.problem]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the findings, without the records."""
        optimizers = [
            {
                "name": watched.name,
                "every": watched.every,
                "findings": [finding.as_dict() for finding in watched.findings],
            }
            for watched in self.optimizers
        ]
        return {
            **{"title": self.title, "steps": self.steps, "error": self.error},
            "optimizers": optimizers,
        }


class WatchedScript(Script):
    """A script that :mod:`gaf.trials.watch` runs."""

    def command(self) -> list[str]:
        """What starts it: as the script itself, through the module."""
        command = super().command()
        place = len(command) - 1 - len(self.options.arguments)
        return [*command[:place], "-m", "gaf.trials.watch", *command[place:]]


def watch_script(
    path: str,
    arguments: Sequence[str],
    launch: str,
    folder: Path,
    *,
    steps: int = STEPS,
    threads: int | None = None,
    wish: Wish,
) -> Diagnosis:
    """Run a script for so many steps and diagnose it.

    Args:
        path: of the script, from the current folder.
        arguments: of the script.
        launch: what starts it; empty: Python.
        folder: for its output and the records; what an earlier call left there is replaced.
        steps: of an optimizer.
        threads: which torch is told to use; None: what the script uses.
        wish: whether to stop.

    Raises:
        ScriptFailed: it ended before an optimizer took a step.
    """
    config = script_config(path, arguments, launch, threads=threads)
    script = WatchedScript(config.task)
    trial = folder / TRIAL
    shutil.rmtree(trial, ignore_errors=True)
    trial.mkdir(parents=True)
    write_json(trial / REQUEST, trial_of(config))
    write_json(trial / WATCH, {"steps": steps})
    status = run_script(config, folder, script, wish)
    if wish.number:
        raise Interrupted(folder, 0, wish.number)
    reason = last_line(folder / STDERR)
    seen = read_json(trial / WATCHED, "steps", "optimizers") if (trial / WATCHED).is_file() else {}
    if not seen.get("steps"):
        if status:
            raise ScriptFailed(
                f"{config.name} ended with status {status}{f': {reason}' if reason else ''} before an "
                f"optimizer took a step (see {folder / STDERR})"
            )
        raise ScriptFailed(
            f"no torch optimizer took a step in {config.name} (see {folder / STDOUT}): gaf doctor sees "
            "optimizers that are torch.optim.Optimizer"
        )
    optimizers = [
        Watched(about["name"], about["every"], *read_records(trial / RECORDS.format(i)))
        for i, about in enumerate(seen["optimizers"])
    ]
    return Diagnosis(script.options.call, seen["steps"], optimizers, seen.get("error"))


def diagnose_file(path: Path) -> Diagnosis:
    """What a monitor's ``write_jsonl`` has written."""
    records, clips = read_records(path)
    steps = [entry["step"] for entry in (*records, *clips)]
    if not steps:
        raise GafError(f"{path} holds no records")
    observed = sorted({record["step"] for record in records})
    every = min((b - a for a, b in pairwise(observed)), default=1)
    return Diagnosis(path.name, max(steps), [Watched(None, every, records, clips)])


def read_records(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records and the clips in a monitor's file; GafError names the line that is damaged."""
    records: list[dict[str, Any]] = []
    clips: list[dict[str, Any]] = []
    for place, line in enumerate(read_whole(path, LARGEST).splitlines(), start=1):
        try:
            entry = json.loads(line)
            check_texts(entry)
            wanted = CLIP if entry["kind"] == "clip" else GRADIENTS
            entry = {
                key: number(value) if isinstance(value, str) else value
                for key, value in entry.items()
            }
            for key in wanted:
                if key not in ("name", "dtype") and not isinstance(entry[key], int | float):
                    raise GafError(f"{key} is {type(entry[key]).__name__}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise GafError(f"{path} is damaged: line {place}: {error}") from None
        (clips if entry["kind"] == "clip" else records).append(entry)
    return records, clips
