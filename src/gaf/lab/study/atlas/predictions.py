"""What was expected of each cell of an atlas before it ran, with the reason and its source."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from gaf.common.errors import GafError
from gaf.lab.engine import config as configs
from gaf.lab.engine.config import Config

FILE = "predictions.json"
Sign = Literal["better", "worse", "no difference"]


class Prediction(Config):
    """One expectation for some rules on some problems, against the tuned baseline."""

    problems: tuple[str, ...]
    rules: tuple[str, ...]
    sign: Sign
    why: str
    source: str


class Predictions(Config):
    """All of them; ``made`` is the day, before the first final run."""

    noun: ClassVar[str] = "file of predictions"

    made: str
    cells: tuple[Prediction, ...]

    def of(self, problem: str, rule: str) -> Prediction | None:
        """The prediction of a cell; None where there is none."""
        return self._by_cell().get((problem, rule))

    def _by_cell(self) -> dict[tuple[str, str], Prediction]:
        return {
            (problem, rule): cell
            for cell in self.cells
            for problem in cell.problems
            for rule in cell.rules
        }

    def check(self) -> None:
        """Refuse a cell that is predicted twice."""
        named = [(p, r) for cell in self.cells for p in cell.problems for r in cell.rules]
        if len({*named}) < len(named):
            twice = next(cell for cell in named if named.count(cell) > 1)
            raise GafError(f"{twice[1]} on {twice[0]} is predicted twice")


def read_predictions(folder: Path) -> Predictions | None:
    """Those in a folder of records; None where there are none."""
    path = folder / FILE
    if not path.is_file():
        return None
    predictions = configs.read_file(path, Predictions)
    predictions.check()
    return predictions
