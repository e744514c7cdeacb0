"""Train a script of the user's own: a process in the user's folder, which is asked and reports through files.

A run's folder has ``trial/`` with what is asked and reported and the script's outputs, and ``stdout.txt`` and
``stderr.txt``. A script has no checkpoints that we know of: one that was interrupted begins again.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from gaf.common.errors import GafError
from gaf.common.files import write_json
from gaf.lab.engine import config as configs
from gaf.lab.engine import folder as folders
from gaf.lab.engine import reaper
from gaf.lab.engine.config import (
    OWN_KEYS,
    SCRIPT_KEYS,
    Config,
    Number,
    OptimizerConfig,
    RunConfig,
    TaskConfig,
    Whole,
)
from gaf.lab.engine.folder import Result
from gaf.lab.engine.identity import facts_of_machine, identify
from gaf.lab.engine.optimizers import import_rule, parameters
from gaf.lab.engine.progress import Progress
from gaf.lab.engine.signals import Interrupted, Wish
from gaf.lab.tasks.base import SCRIPT, ScoredOn
from gaf.lab.tasks.script import Script
from gaf.trials.request import REQUEST
from gaf.trials.run import REPORT, VARIABLE

TRIAL = "trial"  # in the run's folder: what the script sees
STDOUT, STDERR = "stdout.txt", "stderr.txt"
LOOK = 0.05  # seconds between two looks at the script
ENDING = 30.0  # seconds in which a script that was told to end has ended
LONGEST_LINE = 500  # characters of a line in a sentence
USERS_PATH = "GAF_USERS_PYTHONPATH"  # of whoever started the processes that train


class ScriptFailed(GafError):
    """A script that ended with an error, or without a report."""


class ScriptOptimizer(Config):
    """What a script made of one optimizer; of each group the plain values."""

    rule: str
    groups: tuple[dict[str, Any], ...]
    script_rule: str
    script_rate: Number | None  # what a factor multiplies; groups may have rates of their own
    script_lr: tuple[Number | None, ...]
    dropped: tuple[str, ...]


class ScriptReport(Config):
    """The last that a script reported: ``trial/report.json``."""

    noun: ClassVar[str] = "report"

    score: str = Field(min_length=1)
    higher_is_better: bool
    worst: Number
    chance: Number | None
    validation: Number | None
    test: Number | None
    step: Whole
    seconds: Number
    seed_read: bool
    optimizers: dict[str, ScriptOptimizer]

    @model_validator(mode="after")
    def _has_score(self) -> ScriptReport:
        if self.validation is None and self.test is None:
            raise GafError("it has no score")
        return self

    def scored(self, asked: ScoredOn) -> tuple[ScoredOn, float | None]:
        """What the score that counts is of, and the score: the validation's where that is all there is."""
        if asked == "test" and self.test is not None:
            return "test", self.test
        return "validation", self.validation


def script_config(
    path: str,
    arguments: Sequence[str] = (),
    launch: str = "",
    *,
    threads: int | None = 1,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
) -> RunConfig:
    """The baseline of a script: everything as the script has it.

    Args:
        path: of the script, from the current folder.
        arguments: of the script.
        launch: what starts it, such as ``torchrun --nproc-per-node 2``.
        threads: which torch is told to use, by OMP_NUM_THREADS; None: what the script uses.
        accelerator: "cpu" to share the machine's cores, else each run has a GPU where there are any.

    Example:
        >>> config = script_config("train.py", ["--epochs", "10"])
        >>> trial_of(config)["factor"], trial_of(config)["rule"]
        (1.0, None)
    """
    options = {"path": path, "arguments": list(arguments), "launch": launch}
    return RunConfig(
        name=Path(path).name,
        task=TaskConfig(kind=SCRIPT, options=options),  # type: ignore[arg-type]
        optimizer=OptimizerConfig(lr=1.0, script=SCRIPT_KEYS),
        threads=threads,
        accelerator=accelerator,
    )


def trial_of(config: RunConfig) -> dict[str, Any]:
    """What a config asks of its script: ``trial.json``, as :class:`gaf.trials.request.Request` reads it."""
    rule = config.optimizer
    named, factor = "name" not in rule.script, "lr" in rule.script
    return {
        "seed": config.seed,
        "score_on": config.task.score_on,
        "factor": rule.lr if factor else 1.0,
        "rule": rule.name if named else None,
        "lr": None if factor else rule.lr,
        "arguments": _arguments(rule),
        "activation": rule.activation,
        "placement": rule.placement,
        "control": rule.control,
        "centralize": rule.centralize,
        "clip_value": rule.clip_value,
        "clip_norm": rule.clip_norm,
        "normalize": rule.normalize,
    }


def _arguments(rule: OptimizerConfig) -> dict[str, Any]:
    """What a setting has set of the rule's arguments; an imported rule has its own defaults of these keys."""
    keys = {"weight_decay", *rule.own_keys} - {*rule.script}
    values = {key: getattr(rule, key) for key in sorted(keys)}
    if not rule.ours:
        taken = parameters(import_rule(rule.name))
        values = {key: value for key, value in values.items() if key in taken}
        for key in sorted(OWN_KEYS - {*rule.script}):
            if key in taken:
                values[key] = taken[key].default
    return {**values, **rule.arguments}


def read_report(folder: Path) -> ScriptReport:
    """What the script of the run in a folder reported last; GafError where it did not, or it is damaged."""
    return configs.read_file(folder / TRIAL / REPORT, ScriptReport)


def check_seeds(scores: Iterable[Sequence[float]]) -> None:
    """GafError where no seed made a difference: a script that does not use ``trial.seed``.

    Args:
        scores: for each setting and rate that did not diverge the scores over its seeds.

    Example:
        >>> check_seeds([[0.9, 0.91], [0.1, 0.1]])
        >>> check_seeds([[0.9, 0.9], [0.1, 0.1]])
        Traceback (most recent call last):
        gaf.common.errors.GafError: all seeds give the same score: pass trial.seed to torch.manual_seed ...
    """
    several = [list(over_seeds) for over_seeds in scores if len(over_seeds) > 1]
    if several and all(len(set(over_seeds)) == 1 for over_seeds in several):
        raise GafError(
            "all seeds give the same score: pass trial.seed to torch.manual_seed (and to whatever else "
            "draws random numbers) in the script"
        )


def train_script(
    config: RunConfig, folder: Path, script: Script, progress: Progress, wish: Wish
) -> Result:
    """Run the script, unless its run is finished in the folder."""
    identity = identify(config, script)
    folders.check_identity(folder, identity)
    if (folder / folders.FINISHED).is_file():
        return folders.read_result(folder)
    with folders.locked(folder):
        folders.check(folder, config)  # again: another process may have begun meanwhile
        facts = {**facts_of_machine(identity.data), "threads": config.threads}
        folders.begin(folder, config, identity, facts)
        trial = (folder / TRIAL).absolute()
        reaper.end(None, str(trial))  # of a start whose every guard was killed
        shutil.rmtree(trial, ignore_errors=True)
        trial.mkdir(parents=True)
        write_json(trial / REQUEST, trial_of(config))
        progress.begin(config.name, 0, 1)
        try:
            status = run_script(config, folder, script, wish)
        finally:
            progress.end()
        if wish.number:
            raise Interrupted(folder, 0, wish.number)
        result = _result(config, folder, script, status)
        if difference := identity.difference(identify(config, script)):
            raise ScriptFailed(f"{difference} while it ran; run the same command again")
        write_json(folder / folders.FINISHED, {**dict(result), "folder": None})
    return result


def run_script(config: RunConfig, folder: Path, script: Script, wish: Wish) -> int:
    """The exit status of the script, which has ended with all that it started."""
    with open(folder / STDOUT, "wb") as stdout, open(folder / STDERR, "wb") as stderr:
        try:
            process = subprocess.Popen(
                script.command(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=_environment(config, folder),
                start_new_session=True,  # a group of its own
            )
        except OSError as error:
            raise ScriptFailed(f"{config.name} cannot be started: {error}") from None
    with _guarded(process, folder):
        while not wish.number:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK)
    return process.wait()


def _environment(config: RunConfig, folder: Path) -> dict[str, str]:
    """The user's, and where the trial is."""
    environment = {**os.environ, VARIABLE: str((folder / TRIAL).absolute())}
    users = environment.pop(USERS_PATH, None)
    if users is not None:
        environment["PYTHONPATH"] = users
        if not users:
            del environment["PYTHONPATH"]
    if config.threads is not None:
        environment["OMP_NUM_THREADS"] = str(config.threads)
    return environment


@contextmanager
def _guarded(process: subprocess.Popen[bytes], folder: Path) -> Iterator[None]:
    """No process of the script outlives the block, nor this process, however that ends."""
    trial = str((folder / TRIAL).absolute())
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", str(reaper.__file__)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert guard.stdin is not None
    try:
        with suppress(BrokenPipeError):
            guard.stdin.write(f"{process.pid} {trial}\n".encode())
            guard.stdin.flush()
        yield
    finally:
        with suppress(BrokenPipeError):
            guard.stdin.close()
        until = time.monotonic() + ENDING
        while guard.poll() is None and time.monotonic() < until:
            process.poll()  # a process that has ended is there until somebody asks
            time.sleep(LOOK / 5)
        guard.kill()
        guard.wait()
        if process.poll() is None:
            reaper.send(getattr(signal, "SIGKILL", signal.SIGTERM), process.pid, trial)
            process.kill()


def _result(config: RunConfig, folder: Path, script: Script, status: int) -> Result:
    if status != 0:
        reason = last_line(folder / STDERR)
        raise ScriptFailed(
            f"{config.name} ended with status {status}{f': {reason}' if reason else ''} "
            f"(see {folder / STDERR})"
        )
    if not (folder / TRIAL / REPORT).is_file():
        raise ScriptFailed(
            f"{config.name} ended without a report: a script makes trial = gaf.trial(...), and calls "
            f"trial.report(validation=...) at the end of the training (see {folder / STDOUT})"
        )
    report = read_report(folder)
    _, score = report.scored(config.task.score_on)
    if score is None:
        raise ScriptFailed(
            f"{config.name} reports no validation score, by which rates are tuned: call "
            f"trial.report(validation=..., test=...) (see {folder / STDOUT})"
        )
    diverged = not math.isfinite(score)
    final = {report.score: report.worst if diverged else score}
    if report.validation is not None:
        final = {"validation": report.validation, **final}
    return Result(
        name=config.name,
        score_name=report.score,
        score=final[report.score],
        higher_is_better=report.higher_is_better,
        final=final,
        best={**final, "step": float(report.step)},
        diverged=diverged,
        steps=report.step,
        seconds_per_step=report.seconds / max(1, report.step),
        folder=folder,
        chance=report.chance,
    )


def last_line(path: Path) -> str:
    """What a traceback ends with."""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16)))
        lines = file.read().decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1][:LONGEST_LINE] if said else ""
