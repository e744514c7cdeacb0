"""What filling a table found, as frozen data: what the texts, the page and ``table.json`` are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from gaf.errors import GafError
from gaf.experiments.comparison import Difference, Number
from gaf.experiments.engine import config as configs
from gaf.experiments.engine.config import Config
from gaf.experiments.engine.files import write_json

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
    diverged: int
    failed: dict[int, str]
    not_run: tuple[int, ...]
    folders: dict[int, str]


class Beside(Config):
    """Another figure of the same trainings, such as top5: the paper's and ours."""

    paper: Number
    ours: Number | None


class Line(Config):
    """A cell of the paper, what it prints, and what we found.

    ``gain`` is ours minus that of the row's training without f, ``beyond`` ours minus the matched control:
    what f adds to a change of scale. ``paper_gain`` is the paper's difference to its own baseline.
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


class Filled(Config):
    """A table with the paper's numbers and ours.

    ``comparisons`` is the number of differences that p-values are corrected for. ``about`` says what was
    trained, ``changes`` what of that was changed by hand.
    """

    name: str
    title: str
    scale: Literal["small", "full"]
    placement: str | None
    seeds: tuple[int, ...]
    score_name: str
    about: str
    changes: tuple[str, ...]
    lines: tuple[Line, ...]
    comparisons: int
    command: tuple[str, ...]
    environment: dict[str, Any]
    created: str  # ISO 8601, UTC

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
    try:
        return configs.read(path.read_bytes(), Filled)
    except ValueError as error:
        raise GafError(f"{path}: {error}") from None
