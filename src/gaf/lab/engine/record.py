"""Metrics as they come: a line of JSON each, and the same figures for TensorBoard.

At resume the lines are cut back to a checkpoint's length, and TensorBoard's file is made again from them, so
that both read as if nothing had happened.
What cannot repeat, times and speeds, stands under the key ``time``.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import ConfigDict, Field, JsonValue

from gaf.common.errors import GafError
from gaf.common.files import number, plain, read_whole
from gaf.lab.engine import config as configs
from gaf.lab.engine.config import Config, Number, Whole
from gaf.lab.tasks.base import ScoredOn
from gaf.optim.observation import HIGHEST, LOWEST

LARGEST = 1 << 30  # bytes of the records: 3 million steps take about 100 million
METRICS = "metrics.jsonl"
EVENTS = "tensorboard"  # a folder


class Records:
    """The lines, open to append, and what TensorBoard shows of them.

    Args:
        folder: of the run.
        length: of the lines, as :meth:`sync` returned it when the checkpoint was written; 0 to begin anew.
    """

    def __init__(self, folder: Path, length: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._lines = open(folder / METRICS, "ab")  # noqa: SIM115 - closed in close()
        self._lines.truncate(length)
        self._lines.seek(length)
        shutil.rmtree(folder / EVENTS, ignore_errors=True)
        self._events = SummaryWriter(folder / EVENTS)
        for record in read(folder):
            self._show(record)

    def write(self, kind: str, step: int, figures: dict[str, Any], **times: float) -> None:
        """One record; ``kind`` says of what."""
        record = {"kind": kind, "step": step, **figures, "time": times}
        self._lines.write(json.dumps(plain(record), allow_nan=False).encode() + b"\n")
        self._lines.flush()  # what the system has, a killed process does not lose
        self._show(record)

    def _show(self, record: dict[str, Any]) -> None:
        """The figures of a record for TensorBoard."""
        group = f"{record['kind']}{record.get('group', '')}"
        for name, value in {**record, **record["time"]}.items():
            if isinstance(value, int | float) and name not in ("step", "epoch", "group"):
                self._events.add_scalar(f"{group}/{name}", value, record["step"])

    def sync(self) -> int:
        """Make all records last; returns the length to cut the lines back to."""
        os.fsync(self._lines.fileno())
        self._events.flush()
        return self._lines.tell()

    def close(self) -> None:
        """No more records."""
        self._lines.close()
        self._events.close()


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
    """The metrics on the test or the validation data, by name."""

    __pydantic_extra__: dict[str, Number]  # type: ignore[assignment]


class Gradients(Record):
    """What f saw: shares of elements, and the share of each bin by log10 of its lower edge."""

    linear: Number = 0.0
    enlarged: Number = 0.0
    restrained: Number = 0.0
    saturated: Number = 0.0
    histogram: dict[Edge, Part] = Field(default_factory=dict)


SCORED = get_args(ScoredOn)  # of these two a run has one
KINDS: dict[str, type[Record]] = {
    "train": Training,
    **dict.fromkeys(SCORED, Testing),
    "gradients": Gradients,
}


def read(folder: Path) -> list[dict[str, Any]]:
    """The records of a run, oldest first; a line cut short by a kill is left out.

    Raises:
        GafError: the file is damaged; one sentence, with the number of the line.
    """
    path = folder / METRICS
    lines = read_whole(path, LARGEST).split(b"\n")[:-1] if path.exists() else []
    records = []
    for place, line in enumerate(lines, start=1):
        try:
            kind = KINDS.get(configs.read(line, Record).kind, Record)
            values = configs.read(line, kind).model_dump(exclude_unset=True)
            # in the order of the line; in fields that no kind lists inf and nan are still strings
            records.append({key: number(values[key]) for key in json.loads(line)})
        except GafError as error:
            raise GafError(f"{path} is damaged: line {place}: {error}") from None
    return records
