"""Metrics as they come: a line of JSON each, and the same figures for TensorBoard.

Both files are cut back to a checkpoint's length at resume, so that they read as if nothing had happened.
A TensorBoard file that is shorter is made again from the lines.
What cannot repeat, times and speeds, stands under the key ``time``.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, JsonValue

from gaf.common.errors import GafError
from gaf.common.files import number, plain, read_whole
from gaf.lab.engine import config as configs
from gaf.lab.engine.config import Config, Number, Whole
from gaf.optim.monitor import HIGHEST, LOWEST

LARGEST = 1 << 30  # bytes of the records: 3 million steps take about 100 million
METRICS = "metrics.jsonl"
EVENTS = "tensorboard/events.out.tfevents.0.gaf"


class Records:
    """The two files, open to append.

    Args:
        folder: of the run.
        lengths: what :meth:`sync` returned when the checkpoint was written; None to begin anew.
    """

    def __init__(self, folder: Path, lengths: dict[str, int] | None = None) -> None:
        lengths = lengths or {METRICS: 0, EVENTS: 0}
        if size_of(folder / EVENTS) < lengths[EVENTS]:  # lost or cut short: made again
            lengths = {**lengths, EVENTS: 0}
        self._files = {name: _open(folder / name, lengths[name]) for name in (METRICS, EVENTS)}
        if lengths[EVENTS] == 0:
            self._event(file_version="brain.Event:2")
            for record in read(folder):
                self._show(record)

    def write(self, kind: str, step: int, figures: dict[str, Any], **times: float) -> None:
        """One record; ``kind`` says of what."""
        record = {"kind": kind, "step": step, **figures, "time": times}
        line = json.dumps(plain(record), allow_nan=False) + "\n"
        self._append(METRICS, line.encode())
        self._show(record)

    def _show(self, record: dict[str, Any]) -> None:
        """The figures of a record for TensorBoard."""
        group = f"{record['kind']}{record.get('group', '')}"
        values = {
            f"{group}/{name}": float(value)
            for name, value in {**record, **record["time"]}.items()
            if isinstance(value, int | float) and name not in ("step", "epoch", "group")
        }
        self._event(step=record["step"], values=values)

    def _event(self, step: int = 0, values: dict[str, float] | None = None, **other: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[attr-defined]
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[attr-defined]
        from tensorboard.summary.writer.record_writer import RecordWriter

        event = Event(wall_time=time.time(), step=step, **other)
        if values is not None:
            entries = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
            event.summary.CopyFrom(Summary(value=entries))
        RecordWriter(self._files[EVENTS]).write(event.SerializeToString())
        self._files[EVENTS].flush()

    def _append(self, name: str, content: bytes) -> None:
        self._files[name].write(content)
        self._files[name].flush()  # what the system has, a killed process does not lose

    def sync(self) -> dict[str, int]:
        """Make all records last; returns the lengths to cut back to."""
        for file in self._files.values():
            os.fsync(file.fileno())
        return {name: file.tell() for name, file in self._files.items()}

    def close(self) -> None:
        """No more records."""
        for file in self._files.values():
            file.close()


def size_of(path: Path) -> int:
    """The bytes of a file, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def _open(path: Path, length: int) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "ab")  # noqa: SIM115 - closed in Records.close()
    file.truncate(length)
    file.seek(length)
    return file


Edge = Annotated[float, Field(ge=LOWEST, le=HIGHEST)]
Part = Annotated[float, Field(ge=0, le=1)]


class Record(Config):
    """A line of ``metrics.jsonl``; kinds that are not listed below may hold anything."""

    model_config = ConfigDict(extra="allow")
    noun: ClassVar[str] = "record"
    __pydantic_extra__: dict[str, JsonValue]

    kind: str
    step: Whole
    time: dict[str, Number] = Field(default_factory=dict)


class Training(Record):
    """The mean loss of the steps since the record before."""

    epoch: Number
    loss: Number


class Testing(Record):
    """The metrics on the test set, by name."""

    __pydantic_extra__: dict[str, Number]  # type: ignore[assignment]


class Gradients(Record):
    """What f saw: shares of elements, and the share of each bin by log10 of its lower edge."""

    linear: Number = 0.0
    enlarged: Number = 0.0
    restrained: Number = 0.0
    saturated: Number = 0.0
    histogram: dict[Edge, Part] = Field(default_factory=dict)


KINDS: dict[str, type[Record]] = {"train": Training, "test": Testing, "gradients": Gradients}


def read(folder: Path) -> list[dict[str, Any]]:
    """The records of a run, oldest first; a line cut short by a kill is left out.

    Raises:
        GafError: the file is damaged; one sentence, with the number of the line.
    """
    path = folder / METRICS
    lines = read_whole(path, LARGEST).split(b"\n")[:-1] if path.exists() else []
    found = []
    for place, line in enumerate(lines, start=1):
        try:
            kind = KINDS.get(configs.read(line, Record).kind, Record)
            values = configs.read(line, kind).model_dump(exclude_unset=True)
            # in the order of the line; in fields that no kind lists inf and nan are still strings
            found.append({key: number(values[key]) for key in json.loads(line)})
        except GafError as error:
            raise GafError(f"{path} is damaged: line {place}: {error}") from None
    return found
