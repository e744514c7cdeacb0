"""What studies found, as frozen data: what tables, pages and JSON files are made of.

A comparison, a table of the paper and a tuning each are one file in a folder of their own, beside ``runs/``
with a folder for each run. Curves and gradient statistics stay in the run folders.
"""

from __future__ import annotations

import datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    Field,
    JsonValue,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from gaf.common.errors import GafError
from gaf.common.files import write_json
from gaf.lab.engine import config as configs
from gaf.lab.engine.config import Config, Number, Whole
from gaf.lab.study.protocol import is_share

Kind = Literal["baseline", "tuned", "control", "function", "rule"]  # "tuned": in older records
Rate = Annotated[Number, Field(gt=0, allow_inf_nan=False)]  # a learning rate
Bound = Literal["exact", "at least", "at most", "unknown"]


class Difference(Config):
    """A setting minus another one, over the seeds on which both ran to the end.

    ``low`` and ``high`` end the 95 % interval of this difference by itself, and ``p_alone`` is its p-value;
    where rates were tuned, ``p`` is that of the verdict of two rates; ``p_corrected`` allows for all
    differences of the table.
    """

    against: str
    mean: Number
    low: Number
    high: Number
    p: Number
    p_corrected: Number
    n: Whole
    verdict: Literal["better", "worse", "no difference"]
    p_alone: Number | None = None  # not in older records

    @model_validator(mode="before")
    @classmethod
    def _of_old(cls, values: Any) -> Any:
        """Older records have a number of seeds to run, which invited to stop when the verdict pleases."""
        if isinstance(values, dict):
            return {key: value for key, value in values.items() if key != "seeds_needed"}
        return values


class Row(Config):
    """A setting over all seeds.

    Args:
        setting: its name.
        also: other names for the same config, which were asked for too.
        kind: "function" has an f, "control" is the matched control of one, "rule" is anything else.
        changes: keys of the config that differ from the baseline's, with their values here.
        scores: one for each of the comparison's seeds; None where the run failed.
        mean, std: of the scores there are; None where there are none, or too few.
        diverged: how many runs did; their scores are the task's worst.
        failed: seed and error of each run that did.
        vs_baseline: None for the baseline itself, and where no seed ran in both.
        control: the setting that is this one's matched control.
        vs_control: likewise.
        train_test_gap: test loss - training loss at the end, mean over seeds; None where a task has no loss.
        seconds_per_step: median over seeds, as measured with other runs beside it.
        steps_to_baseline: median over seeds of the steps until the test score was at least the
            baseline's final one on that seed; None where half the seeds never got there.
            Neither where the baseline learned nothing: there is nothing to reach.
        reached: on how many seeds it got there.
        at_chance: whether no run of the setting scored better than :attr:`Comparison.chance`.
        verdict: against the baseline, in a word; "nothing learned" where both are at chance.
        sentence: the verdict to read.
        activated: whether the setting has an f.
        rate: the learning rate of these runs, None in older records.
        second_rate, second_scores: the runs at the second best rate, where rates were tuned.
        earlier: the scores of seeds that an earlier look at the comparison has used up.
    """

    setting: str
    also: tuple[str, ...] = ()
    kind: Kind
    changes: dict[str, str]
    scores: tuple[Number | None, ...]
    mean: Number | None
    std: Number | None
    diverged: Whole
    failed: dict[Whole, str]
    vs_baseline: Difference | None
    control: str | None
    vs_control: Difference | None
    train_test_gap: Number | None
    seconds_per_step: Number | None
    steps_to_baseline: Number | None
    reached: Whole
    at_chance: bool = False
    verdict: Literal["baseline", "better", "worse", "no difference", "nothing learned", "failed"]
    sentence: str
    activated: bool = False
    rate: Rate | None = None
    second_rate: Rate | None = None
    second_scores: tuple[Number | None, ...] = ()
    earlier: tuple[Number | None, ...] = ()


class RunRef(Config):
    """A run of the comparison: setting and seed, its folder seen from the comparison's, what came of it.

    ``rate`` is its learning rate where that is not the row's own.
    """

    setting: str
    seed: Whole
    rate: Number | None = None
    folder: str
    status: Literal["finished", "diverged", "failed"]
    score: Number | None
    error: str = ""


class RateTrial(Config):
    """One learning rate in the tuning of a rule: its scores on the validation data, by tuning seed.

    ``part`` says why it was tried: in the ``grid`` that every rule gets, ``grown`` beyond an edge of it, or
    ``refined`` beside the end of the window. The last does not take part in the choice of a rate.
    """

    rate: Rate
    part: Literal["grid", "grown", "refined"]
    scores: tuple[Number | None, ...]
    mean: Number | None


class UsableRates(Config):
    """The learning rates around a rule's best one at which it is good enough: from ``low`` to ``high``.

    An end is open where the rates that were tried end before the score falls. ``interval`` is that of
    ``factor``, None with fewer than five tuning seeds. ``shifted`` and ``widened`` compare the middle and the
    factor with the baseline's, which open ends make a bound; None where it has no window, and for the
    baseline itself.
    """

    low: Rate
    high: Rate
    open_low: bool
    open_high: bool
    factor: Number
    interval: tuple[Number, Number] | None = None
    shifted: Number | None = None
    shifted_is: Bound = "exact"
    widened: Number | None = None
    widened_is: Bound = "exact"
    widened_interval: tuple[Number, Number] | None = None


class RuleCurve(Config):
    """A rule over the learning rate.

    Args:
        usual: the rate in the middle of the grid.
        trials: by rate.
        chosen: the best rate by mean validation score; None where no trial came to an end.
        second: the next best; None for a rule without a rate, which has one trial.
        window: None where the best is not good enough, and for a rule without a rate.
        best_of: the expected validation score of the best of k rates of the grid, k = 1, 2, ...
    """

    usual: Rate
    trials: Annotated[tuple[RateTrial, ...], Field(min_length=1)]
    chosen: Rate | None
    second: Rate | None
    window: UsableRates | None
    best_of: tuple[Number, ...]

    @property
    def has_rate(self) -> bool:
        """Whether the rule has a learning rate to tune."""
        return len(self.trials) > 1


class Tuning(Config):
    """How the rules of a comparison came by their learning rates: all alike, on validation data.

    Args:
        seeds: of the trials; the table has others.
        rates: how many the grid has, ``ratio`` apart.
        validation: the share of the training data that is the validation data; None where a script has some.
        within: how far below the baseline's best score a window reaches, in units of the score.
        threshold: the score that a window asks for; None where the baseline learned nothing; then
            there are no windows.
        curves: by setting.
    """

    seeds: tuple[Whole, ...]
    rates: Whole
    ratio: Number
    validation: Number | None
    within: Number
    threshold: Number | None
    curves: dict[str, RuleCurve]


class StudyCost(Config):
    """What the runs took: how many of them, steps of the optimizer, and seconds of one worker."""

    trials: Whole
    finals: Whole
    steps: Whole
    seconds: Number


class Comparison(Config):
    """Everything but the curves.

    ``task`` says in a sentence what was trained. ``rows`` begin with the baseline. ``chance`` is the score up
    to which nothing has been learned, None where the task does not say. ``seeds`` are those of the verdicts;
    ``earlier`` ones were seen by an earlier look at fewer seeds, and decide nothing. ``score_on`` names the
    data of the verdicts: a script may have no test data. ``tuning`` is None at given rates. ``environment``
    is what the runs recorded: versions, processor, device, checksums of the data. Times are the only figures
    that differ when the same comparison is made again on the same machine.
    """

    noun: ClassVar[str] = "comparison"
    file: ClassVar[str] = "comparison.json"

    title: str
    task: str
    score_name: str
    higher_is_better: bool
    chance: Number | None = None
    seeds: Annotated[tuple[Whole, ...], Field(min_length=1)]
    baseline: str
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    runs: tuple[RunRef, ...]
    tuning: Tuning | None = None
    cost: StudyCost | None = None
    score_on: Literal["test", "validation"] = "test"
    earlier: tuple[Whole, ...] = ()
    command: tuple[str, ...]
    environment: dict[str, JsonValue]
    created: str  # ISO 8601, UTC

    @field_validator("tuning", mode="wrap")
    @classmethod
    def _of_old(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        """Older records have one tuned setting, and no curve of it."""
        if not isinstance(value, dict):
            return validate(value)
        return None if "tried" in value else configs.read(value, Tuning)

    @model_validator(mode="after")
    def _whole(self) -> Comparison:
        names = [row.setting for row in self.rows]
        if len({*names}) < len(names):
            raise GafError("a setting has two rows")
        if self.tuning and {*names} - {*self.tuning.curves}:
            raise GafError("a setting has no curve over the learning rate")
        if any(len(row.scores) != len(self.seeds) for row in self.rows):
            raise GafError("a row does not have a score for each seed")
        return self

    @property
    def is_share(self) -> bool:
        """Whether the scores are shares such as an accuracy, of which a hundredth is a point."""
        return is_share(chain.from_iterable(row.scores for row in self.rows), self.higher_is_better)

    def row(self, setting: str) -> Row:
        """The row of a setting, by any of its names."""
        for row in self.rows:
            if setting == row.setting or setting in row.also:
                return row
        raise GafError(f"the comparison {self.title} has no setting {setting!r}")

    def runs_of(self, setting: str) -> tuple[RunRef, ...]:
        """The runs of a setting, in the order of the seeds."""
        name = self.row(setting).setting
        return tuple(run for run in self.runs if run.setting == name)


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


class FilledCell(Config):
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

    ``title`` is the table's number and ``caption``, which older records do not have. ``comparisons`` is the
    number of differences that p-values are corrected for. ``about`` says what was trained, ``changes`` what
    of that was changed by hand.
    """

    noun: ClassVar[str] = "table"
    file: ClassVar[str] = "table.json"

    name: str
    title: str
    caption: str = ""
    scale: Literal["small", "full"]
    placement: str | None
    seeds: Annotated[tuple[Whole, ...], Field(min_length=1)]
    score_name: str
    about: str
    changes: tuple[str, ...]
    lines: Annotated[tuple[FilledCell, ...], Field(min_length=1)]
    comparisons: Whole
    command: tuple[str, ...]
    environment: dict[str, JsonValue]
    created: str  # ISO 8601, UTC

    @model_validator(mode="after")
    def _whole(self) -> Filled:
        scores = (cell for line in self.lines for cell in (line.ours, line.control) if cell)
        if any(len(cell.values) != len(self.seeds) for cell in scores):
            raise GafError("a cell does not have a score for each seed")
        return self

    @property
    def finished(self) -> bool:
        """Whether every run has come to an end, good or bad."""
        return not any(
            scores.not_run for line in self.lines for scores in (line.ours, line.control) if scores
        )


class NamedCandidate(Config):
    """A candidate of a tuning: the name of its setting, where it comes from, where f acts, and f's beta."""

    name: str
    source: str
    placement: str
    beta: Number


class Tuned(Config):
    """What came of a tuning; the comparison of the winner with the tuned baseline stands beside it.

    ``line`` is what to copy into a training script, ``reasons`` are (subject, sentence), ``candidates`` begin
    with the one that the paper's rule recommends. ``probe`` and ``curve`` hold what the page draws.
    """

    noun: ClassVar[str] = "tuning"
    file: ClassVar[str] = "tune.json"

    title: str
    task: str
    verdict: str
    helps: bool
    line: str
    winner: NamedCandidate
    recommended: NamedCandidate
    candidates: tuple[NamedCandidate, ...]
    reasons: tuple[tuple[str, str], ...]
    probe: dict[str, Any]
    curve: dict[str, Any]
    command: tuple[str, ...]
    created: str
    environment: dict[str, JsonValue]


Study = TypeVar("Study", Comparison, Filled, Tuned)


def now() -> str:
    """When something was found: ISO 8601, UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def write(study: Comparison | Filled | Tuned, folder: Path) -> Path:
    """Write it, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / study.file, study.model_dump(mode="python"))
    return folder / study.file


def read(folder: Path, kind: type[Study]) -> Study:
    """What a folder holds of a kind; GafError says in one sentence what is wrong."""
    path = folder / kind.file
    if not path.is_file():
        raise GafError(f"{folder} holds no {kind.noun}: there is no {kind.file}")
    return configs.read_file(path, kind)
