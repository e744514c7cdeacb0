"""What came of a run, and how it is read again; light to import, as reports and grids read many."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from gaf.common.errors import GafError
from gaf.common.files import read_json
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import Config, Number, Whole, explain


class Result(Config):
    """What came of a run.

    ``final`` and ``best`` are the metrics on the test set at the end and at the best score (with its
    step). A run that ``diverged`` has the task's worst score. ``score`` is ``final[score_name]``.
    ``chance`` is the score up to which nothing has been learned, None where the task does not say.
    The file has no ``folder``: a run may be moved.
    """

    noun: ClassVar[str] = "result"

    name: str
    score_name: str
    score: Number
    higher_is_better: bool
    final: dict[str, Number]
    best: dict[str, Number]
    diverged: bool
    steps: Whole
    seconds_per_step: Number
    folder: Path
    chance: Number | None = None

    @property
    def learned(self) -> bool:
        """Whether the score is better than chance, as far as the task says."""
        if self.chance is None:
            return True
        return self.score > self.chance if self.higher_is_better else self.score < self.chance


def told(metrics: Mapping[str, float]) -> str:
    """Figures in a line. Those with a slash in their name are details, recorded and not told.

    Example:
        >>> told({"mAP": 0.77714, "AP/dog": 0.8413})
        'mAP 0.7771'
    """
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items() if "/" not in name)


def read_result(folder: Path) -> Result:
    """The result of a finished run."""
    path = folder / folders.FINISHED
    if not path.is_file():
        raise GafError(f"the run in {folder} is not finished: there is no {folders.FINISHED}")
    found = read_json(path)
    try:
        return Result(**{**found, "folder": folder})
    except ValidationError as error:
        raise GafError(f"{path} is damaged: {explain(error, Result)}") from None
