"""What filling a table found, as frozen data: what the texts, the page and ``table.json`` are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, model_validator

from gaf.common.errors import GafError
from gaf.common.files import write_json
from gaf.lab.engine import config as configs
from gaf.lab.engine.config import Config, Number, Whole
from gaf.lab.study.comparison import Difference

TABLE = "table.json"


class Scores(Config):
    """Runs of one config over the table's seeds, in percent.

    Args:
        recipe: the name of the config.
        values: one for each seed; None where a run failed or has not run.
        mean, std: of the values there are; None where there are none, or too few.
        diverged: how many did; their score is the worst there is.
        failed: the error of each run that failed, by seed.
        not_run: seeds that have not come to an end.
        folders: of the runs, by seed, seen from the table's.
    """

    recipe: str
    values: tuple[Number | None, ...]
    mean: Number | None
    std: Number | None
    diverged: Whole
    failed: dict[Whole, str]
    not_run: tuple[Whole, ...]
    folders: dict[Whole, str]


class Beside(Config):
    """Another figure of the same trainings, such as top5: the paper's and ours."""

    paper: Number
    ours: Number | None


class Line(Config):
    """A cell of the paper, what it prints, and what we found.

    ``gain`` is ours minus that of the row's training without f, ``beyond`` ours minus the matched control:
    what f adds to a change of scale. ``paper_gain`` is the paper's difference to its own baseline. Where
    neither it nor the training without f has ``learned`` anything, differences have no meaning.
    """

    data: str
    model: str
    setting: str
    paper: Number
    paper_gain: Number | None
    ours: Scores
    gain: Difference | None
    control: Scores | None
    beyond: Difference | None
    beside: dict[str, Beside]
    learned: bool = True


class Filled(Config):
    """A table with the paper's numbers and ours.

    ``comparisons`` is the number of differences that p-values are corrected for. ``about`` says what was
    trained, ``changes`` what of that was changed by hand.
    """

    noun: ClassVar[str] = "table"

    name: str
    title: str
    scale: Literal["small", "full"]
    placement: str | None
    seeds: Annotated[tuple[Whole, ...], Field(min_length=1)]
    score_name: str
    about: str
    changes: tuple[str, ...]
    lines: Annotated[tuple[Line, ...], Field(min_length=1)]
    comparisons: Whole
    command: tuple[str, ...]
    environment: dict[str, JsonValue]
    created: str  # ISO 8601, UTC

    @model_validator(mode="after")
    def _whole(self) -> Filled:
        scores = (each for line in self.lines for each in (line.ours, line.control) if each)
        if any(len(each.values) != len(self.seeds) for each in scores):
            raise GafError("a cell does not have a score for each seed")
        return self

    @property
    def finished(self) -> bool:
        """Whether every run has come to an end, good or bad."""
        return not any(
            scores.not_run for line in self.lines for scores in (line.ours, line.control) if scores
        )


def write(table: Filled, folder: Path) -> Path:
    """Write it, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / TABLE, table.model_dump(mode="python"))
    return folder / TABLE


def read(folder: Path) -> Filled:
    """The table in a folder; GafError says in one sentence what is wrong."""
    path = folder / TABLE
    if not path.is_file():
        raise GafError(f"{folder} holds no table: there is no {TABLE}")
    return configs.read_file(path, Filled)
