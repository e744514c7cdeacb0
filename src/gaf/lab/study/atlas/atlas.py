"""A suite of comparisons, one after the other, and the map that they make: problems by rules.

Each problem is a comparison of :mod:`gaf.lab.study.compare`, in a folder of its own. A cell has a rule's
difference to the tuned baseline and to the best tuned rule, which is the one with the best validation score:
to choose it by the test would make it look better than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import JsonValue
from rich.console import Console

from gaf.common import files
from gaf.common.errors import GafError
from gaf.common.files import write_json
from gaf.lab.data import DataError
from gaf.lab.engine import config as configs
from gaf.lab.engine.config import Config, Number, Whole
from gaf.lab.study import results
from gaf.lab.study.atlas.predictions import Prediction, Predictions, read_predictions
from gaf.lab.study.atlas.records import (
    SUFFIX,
    NotRecorded,
    RecordingTable,
    RestoredRuns,
    RunRecords,
)
from gaf.lab.study.atlas.suite import AtlasProblem, Suite
from gaf.lab.study.compare import compare
from gaf.lab.study.grid import Executor
from gaf.lab.study.results import Comparison, Difference, Row, StudyCost, UsableRates
from gaf.lab.study.statistics import LEVEL, paired, share_a_seed

Verdict = Literal["baseline", "better", "worse", "no difference", "nothing learned", "failed"]


class BestGap(Config):
    """A rule minus the best tuned rule, seed by seed, with the 95 % interval of this difference by itself."""

    against: str
    mean: Number
    low: Number
    high: Number


class AtlasCell(Config):
    """A rule on a problem.

    Args:
        rule: the name of its setting.
        activated: whether it has an f.
        mean, std: of the test scores at its best rate.
        rate: its best learning rate.
        verdict: against the tuned baseline, corrected for all comparisons of the problem.
        vs_baseline, vs_best: differences; None for the baseline and for the best rule itself.
        window: of usable learning rates.
        best_of: the expected validation score of the best of k rates, k = 1, 2, ...
        predicted: what was expected.
        hit: whether the verdict is what was expected; None where there is nothing to count.
    """

    rule: str
    activated: bool
    mean: Number | None
    std: Number | None
    rate: Number | None
    verdict: Verdict
    vs_baseline: Difference | None
    vs_best: BestGap | None
    window: UsableRates | None
    best_of: tuple[Number, ...]
    predicted: Prediction | None = None
    hit: bool | None = None


class AtlasStudy(Config):
    """A problem of the map, with what its study says in a sentence or two."""

    name: str
    title: str
    why: str
    sources: tuple[str, ...]
    task: str
    score_name: str
    higher_is_better: bool
    baseline: str
    best: str
    seeds: Whole
    tuning_seeds: Whole
    rates: Whole
    comparisons: Whole
    cells: tuple[AtlasCell, ...]
    cost: StudyCost | None
    environment: dict[str, JsonValue]
    created: str

    def cell(self, rule: str) -> AtlasCell | None:
        """Of a rule; None where it was not tried here."""
        return next((cell for cell in self.cells if cell.rule == rule), None)


class Atlas(Config):
    """The map: the problems that have been studied, in the order of the suite."""

    noun: ClassVar[str] = "atlas"
    file: ClassVar[str] = "atlas.json"

    title: str
    studies: tuple[AtlasStudy, ...]
    planned: tuple[str, ...]
    predicted: str = ""  # the day
    created: str

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules of the map, those without a study of theirs left out."""
        return tuple(dict.fromkeys(cell.rule for study in self.studies for cell in study.cells))

    @property
    def judged(self) -> list[AtlasCell]:
        """The cells that have a verdict against the baseline."""
        return [cell for one in self.studies for cell in one.cells if cell.vs_baseline]

    @property
    def by_chance(self) -> tuple[float, float]:
        """How many cells would be "better" by chance alone if no rule differed from its baseline.

        At most, with the correction within each problem; and without it, by the same test.
        """
        return len(self.studies) * LEVEL / 2, len(self.judged) * LEVEL / 2

    @property
    def hits(self) -> tuple[int, int]:
        """Predictions that came true, and those that did not."""
        counted = [cell.hit for cell in self.judged if cell.hit is not None]
        return sum(counted), len(counted) - sum(counted)


@dataclass(frozen=True)
class Places:
    """Where things are: studies with their runs and pages, and the records."""

    studies: Path
    records: Path

    def study(self, problem: AtlasProblem) -> Path:
        return self.studies / problem.name

    def runs(self, problem: AtlasProblem) -> Path:
        return self.records / f"{problem.name}{SUFFIX}"


def run_suite(
    suite: Suite,
    problems: Sequence[AtlasProblem],
    rules: Sequence[str],
    places: Places,
    executor: Executor,
    console: Console,
    command: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Atlas, dict[str, Comparison]]:
    """Compare on each problem what is not recorded yet; the map is written after each.

    Returns:
        The map, with problems that were studied before, and the comparisons of this call by problem.

    Raises:
        Stopped: a signal came; the same call resumes.
    """
    predictions = read_predictions(places.records)
    comparisons: dict[str, Comparison] = {}
    with locked(places.records):
        atlas = known(suite, places.records)
        for problem in problems:
            records = RunRecords(places.runs(problem))
            watch = RecordingTable(console, problem.name, records)
            try:
                comparison = compare(
                    suite.plan(problem, rules),
                    places.study(problem),
                    RestoredRuns(executor, records),
                    watch,
                    command,
                )
            except (DataError, NotRecorded) as error:
                say(f"{problem.name} is left out: {error}")
                continue
            comparisons[problem.name] = comparison
            study = study_of(problem, comparison, predictions)
            atlas = _with(suite, atlas, study, predictions)
            write_json(places.records / Atlas.file, atlas.model_dump(mode="python"))
    if not atlas.studies:
        raise GafError("no problem could be studied")
    return atlas, comparisons


def locked(records: Path) -> AbstractContextManager[None]:
    """Two atlases at once would write into each other's records."""
    return files.locked(records, GafError(f"another process is writing the records in {records}"))


def known(suite: Suite, records: Path) -> Atlas:
    """What has been studied before, as far as the suite still has it."""
    path = records / Atlas.file
    names = tuple(problem.name for problem in suite.problems)
    studies: tuple[AtlasStudy, ...] = ()
    if path.is_file():
        studies = configs.read_file(path, Atlas).studies
    return Atlas(
        title=suite.title,
        studies=tuple(study for study in studies if study.name in names),
        planned=names,
        created=results.now(),
    )


def _with(
    suite: Suite,
    atlas: Atlas,
    study: AtlasStudy,
    predictions: Predictions | None,
) -> Atlas:
    by_name = {one.name: one for one in (*atlas.studies, study)}
    order = [problem.name for problem in suite.problems if problem.name in by_name]
    return atlas.model_copy(
        update={
            "studies": tuple(by_name[name] for name in order),
            "predicted": predictions.made if predictions else "",
            "created": results.now(),
        }
    )


def study_of(
    problem: AtlasProblem, comparison: Comparison, predictions: Predictions | None
) -> AtlasStudy:
    """The row of the map that a comparison makes; controls stay in the study."""
    tuning = comparison.tuning
    assert tuning is not None
    rows = [row for row in comparison.rows if row.kind != "control"]
    best = best_row(comparison, rows)
    return AtlasStudy(
        name=problem.name,
        title=problem.title,
        why=problem.why,
        sources=problem.sources,
        task=comparison.task,
        score_name=comparison.score_name,
        higher_is_better=comparison.higher_is_better,
        baseline=comparison.baseline,
        best=best.setting,
        seeds=len(comparison.seeds),
        tuning_seeds=len(tuning.seeds),
        rates=tuning.rates,
        comparisons=sum(
            difference is not None
            for row in comparison.rows
            for difference in (row.vs_baseline, row.vs_control)
        ),
        cells=tuple(_cell(problem, comparison, row, best, predictions) for row in rows),
        cost=comparison.cost,
        environment=comparison.environment,
        created=comparison.created,
    )


def best_row(comparison: Comparison, rows: Sequence[Row]) -> Row:
    """The rule with the best mean validation score at its chosen rate."""
    assert comparison.tuning is not None
    sign = 1 if comparison.higher_is_better else -1

    def height(row: Row) -> float:
        curve = comparison.tuning.curves[row.setting]  # type: ignore[union-attr]
        means = [trial.mean for trial in curve.trials if trial.rate == curve.chosen]
        return -float("inf") if not means or means[0] is None else sign * means[0]

    return max(rows, key=height)


def _cell(
    problem: AtlasProblem,
    comparison: Comparison,
    row: Row,
    best: Row,
    predictions: Predictions | None,
) -> AtlasCell:
    assert comparison.tuning is not None
    curve = comparison.tuning.curves[row.setting]
    predicted = predictions.of(problem.name, row.setting) if predictions else None
    gap = None
    if row is not best and share_a_seed(row.scores, best.scores):
        pair = paired(row.scores, best.scores)
        gap = BestGap(against=best.setting, mean=pair.mean, low=pair.low, high=pair.high)
    return AtlasCell(
        rule=row.setting,
        activated=row.activated,
        mean=row.mean,
        std=row.std,
        rate=row.rate,
        verdict=row.verdict,
        vs_baseline=row.vs_baseline,
        vs_best=gap,
        window=curve.window,
        best_of=curve.best_of,
        predicted=predicted,
        hit=_is_hit(row, predicted),
    )


def _is_hit(row: Row, predicted: Prediction | None) -> bool | None:
    """Two rules that both learn nothing do not differ; one that failed says nothing."""
    if predicted is None or row.verdict in ("baseline", "failed"):
        return None
    verdict = "no difference" if row.verdict == "nothing learned" else row.verdict
    return verdict == predicted.sign
