"""Finished runs as lines of a small file, from which a suite resumes on a machine that has no run folders.

A line has a run's digest, which stands for its config, its code and its data (as the name of a run folder
does), and what came of it. So a record stays valid while the versions of its task, rule and function do,
whatever else changes. The code and data (``identity``) and the machine have a line of their own, which runs
refer to. Lines are added and never changed; a kill or a power cut can lose the one that was being written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, JsonValue
from rich.console import Console

from gaf.common.errors import GafError
from gaf.common.files import plain, read_whole, sync_folder, write_json
from gaf.lab.engine import checkpoint, record
from gaf.lab.engine import config as configs
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import Config, Number, RunConfig, Whole
from gaf.lab.engine.identity import RunIdentity
from gaf.lab.study import results
from gaf.lab.study.grid import NOT_COMPUTED, Executor, Outcome, digest
from gaf.lab.study.judge import history
from gaf.lab.study.live import LiveTable
from gaf.lab.study.results import Rate
from gaf.lab.tasks.base import ScoredOn

SUFFIX = ".jsonl"
LARGEST = 1 << 28  # bytes of a problem's records
OF_THE_RUN = ("data",)  # of what a run says of its machine

Key = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class RecordLine(Config):
    """Any of the three; ``kind`` says which."""

    noun: ClassVar[str] = "record"
    kind: str


class IdentityLine(RecordLine):
    """Code and data, under a key."""

    key: Key
    identity: RunIdentity


class MachineLine(RecordLine):
    """Versions, processor, commit: what is the same for the runs of a session."""

    key: Key
    machine: dict[str, JsonValue]


class RunRecord(RecordLine):
    """A run that has ended.

    Args:
        run: the digest of config, code and data.
        setting: its name in the study.
        rate, seed, scored_on: what tells it from the other runs of the setting.
        identity, machine: keys of other lines.
        score: at the end; of a run that diverged the task's worst.
        final: all figures at the end.
        tests: (step, score) on the way; those of trials are left out.
        gap: test loss - training loss at the end.
        steps, seconds_per_step: what it took.
        ended: ISO 8601, UTC.
    """

    run: Key
    setting: str
    rate: Rate
    seed: Whole
    scored_on: ScoredOn
    identity: Key
    machine: Key
    score_name: str
    higher_is_better: bool
    chance: Number | None
    score: Number
    final: dict[str, Number]
    diverged: bool
    tests: tuple[tuple[Whole, Number], ...] = ()
    gap: Number | None = None
    steps: Whole
    seconds_per_step: Number
    ended: str


KINDS: dict[str, type[RecordLine]] = {
    "identity": IdentityLine,
    "machine": MachineLine,
    "run": RunRecord,
}


class RunRecords:
    """The records of a problem, in memory and in a file.

    Args:
        path: of the file; made when there is something to write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: dict[str, RunRecord] = {}
        self._identities: dict[str, RunIdentity] = {}
        self._machines: dict[str, dict[str, Any]] = {}
        content = read_whole(path, LARGEST) if path.exists() else b""
        self._whole = content.rfind(b"\n") + 1  # a kill may have left half a line behind it
        for number, text in enumerate(content[: self._whole].split(b"\n")[:-1], start=1):
            try:
                self._take(configs.read(text, _kind(text)))
            except GafError as error:
                raise GafError(f"{path} is damaged: line {number}: {error}") from None

    def _take(self, line: RecordLine) -> None:
        if isinstance(line, IdentityLine):
            self._identities[line.key] = line.identity
        elif isinstance(line, MachineLine):
            self._machines[line.key] = line.machine
        elif isinstance(line, RunRecord):
            if line.identity not in self._identities or line.machine not in self._machines:
                raise GafError(f"the run {line.run} refers to a line that is not before it")
            self.runs[line.run] = line

    def add(self, config: RunConfig, setting: str, outcome: Outcome) -> None:
        """Write down a run that has ended in its folder; it lasts when this returns."""
        result, folder = outcome.result, outcome.folder
        identity = folders.read_identity(folder)
        assert result is not None
        assert identity is not None
        facts = folders.read_environment(folder).machine()
        machine = {key: value for key, value in facts.items() if key not in OF_THE_RUN}
        seen, scored_on = history(outcome), config.task.score_on
        run = RunRecord(
            kind="run",
            run=folder.name,
            setting=setting,
            rate=config.optimizer.lr,
            seed=config.seed,
            scored_on=scored_on,
            identity=_key(identity.model_dump(mode="json")),
            machine=_key(machine),
            score_name=result.score_name,
            higher_is_better=result.higher_is_better,
            chance=result.chance,
            score=result.score,
            final=result.final,
            diverged=result.diverged,
            tests=seen.tests if scored_on == "test" else (),
            gap=seen.gap,
            steps=result.steps,
            seconds_per_step=result.seconds_per_step,
            ended=results.now(),
        )
        lines: list[RecordLine] = []
        if run.identity not in self._identities:
            lines.append(IdentityLine(kind="identity", key=run.identity, identity=identity))
        if run.machine not in self._machines:
            lines.append(MachineLine(kind="machine", key=run.machine, machine=machine))
        self._append([*lines, run])

    def _append(self, lines: list[RecordLine]) -> None:
        text = "".join(
            json.dumps(plain(line.model_dump(mode="python")), allow_nan=False) + "\n"
            for line in lines
        )
        is_new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            file.truncate(self._whole)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
            self._whole = file.tell()
        if is_new:
            sync_folder(self.path.parent)
        for line in lines:
            self._take(line)

    def restore(self, config: RunConfig, folder: Path) -> bool:
        """Make the folder of a run from its record, as it would be found finished; False: there is none.

        It has no checkpoint, and of the way of the loss the tests alone.
        """
        run = self.runs.get(folder.name)
        if run is None:
            return False
        identity = self._identities[run.identity]
        if identity.digest(config, NOT_COMPUTED) != run.run:
            raise GafError(f"{self.path} is damaged: the run {run.run} is not what its line says")
        folder.mkdir(parents=True, exist_ok=True)
        machine = self._machines[run.machine]
        for name, content in (
            (folders.CONFIG, config.model_dump(mode="json")),
            (folders.IDENTITY, identity.model_dump(mode="json")),
            (folders.ENVIRONMENT, {**machine, "data": identity.data}),
        ):
            (folder / name).write_text(json.dumps(plain(content)), "utf-8")
        (folder / record.METRICS).write_text(_metrics(run), "utf-8")
        # last: with it the run counts as finished
        finished = folders.Result(
            name=config.name,
            score_name=run.score_name,
            score=run.score,
            higher_is_better=run.higher_is_better,
            final=run.final,
            best={},
            diverged=run.diverged,
            steps=run.steps,
            seconds_per_step=run.seconds_per_step,
            folder=folder,
            chance=run.chance,
        )
        write_json(folder / folders.FINISHED, {**dict(finished), "folder": None})
        return True


def _kind(text: bytes) -> type[RecordLine]:
    try:
        return KINDS[json.loads(text)["kind"]]
    except (ValueError, KeyError, TypeError):
        raise GafError(f"it is none of {', '.join(KINDS)}") from None


def _key(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _metrics(run: RunRecord) -> str:
    """The lines that :func:`gaf.lab.study.judge.history` reads: the tests, and the loss that has this gap."""
    lines: list[dict[str, Any]] = [
        {"kind": run.scored_on, "step": step, run.score_name: score, "time": {}}
        for step, score in run.tests
    ]
    if run.gap is not None:
        loss = run.final["loss"] - run.gap
        lines.append({"kind": "train", "step": run.steps, "epoch": 1.0, "loss": loss, "time": {}})
    return "".join(json.dumps(plain(line)) + "\n" for line in lines)


class RestoredRuns:
    """An executor of :mod:`gaf.lab.study.grid` that takes runs from their records, and trains the others.

    Args:
        executor: trains what has no record.
        records: of the problem.
    """

    def __init__(self, executor: Executor, records: RunRecords) -> None:
        self._executor, self._records = executor, records

    def submit(
        self, config: RunConfig, folder: Path, seen: Callable[[int, int], None]
    ) -> Future[None]:
        if not self._records.restore(config, folder):
            return self._executor.submit(config, folder, seen)
        ended: Future[None] = Future()
        ended.set_result(None)
        return ended

    def stop(self) -> None:
        self._executor.stop()


class NotRecorded(GafError):
    """A run that nobody has trained yet, where only recorded ones are wanted."""


class NoTraining:
    """An executor that trains nothing, for pages from records alone."""

    def __enter__(self) -> NoTraining:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def submit(
        self, config: RunConfig, folder: Path, seen: Callable[[int, int], None]
    ) -> Future[None]:
        raise NotRecorded(f"{config.name}, seed {config.seed}, is not recorded")

    def stop(self) -> None:
        """There is nothing to stop."""


class RecordingTable(LiveTable):
    """Shows a grid on its way, and records each run that has ended or was found finished.

    The second matters after a kill: a run may have ended in its folder and not be recorded yet.
    """

    def __init__(self, console: Console, title: str, records: RunRecords) -> None:
        super().__init__(console, title)
        self._records, self._names = records, {}

    def settings(self, names: Mapping[str, str]) -> None:
        super().settings(names)
        self._names = dict(names)

    def ended(self, config: RunConfig, outcome: Outcome) -> None:
        if outcome.result is not None and outcome.folder.name not in self._records.runs:
            self._records.add(config, self._names[digest(config)], outcome)
            for part in (checkpoint.CHECKPOINTS, record.EVENTS):  # most of what a run takes
                shutil.rmtree(outcome.folder / part, ignore_errors=True)
        super().ended(config, outcome)
