"""From runs to rows: scores, and differences seed by seed; :mod:`gaf.lab.study.words` says what they mean."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gaf.lab.engine import record
from gaf.lab.engine.folder import Result
from gaf.lab.study.grid import Outcome, higher_is_better
from gaf.lab.study.protocol import Judgement, judge_pair
from gaf.lab.study.results import Difference, Row
from gaf.lab.study.settings import Setting
from gaf.lab.study.statistics import deviation, holm, mean, share_a_seed

Key = TypeVar("Key")


@dataclass(frozen=True)
class Entry:
    """A setting in the order of the table, its other names, and the setting that is its control."""

    setting: Setting
    also: tuple[str, ...] = ()
    control: str | None = None

    @property
    def name(self) -> str:
        return self.setting.name


@dataclass(frozen=True)
class Finals:
    """The runs of a setting by which it is judged, in the order of the seeds.

    Args:
        outcomes: at ``rate``, the setting's best.
        second_outcomes: at ``second_rate``, the next best; none where rates were not tuned.
        earlier: at ``rate``, on seeds that an earlier look has used up.
    """

    outcomes: Sequence[Outcome]
    rate: float | None = None
    second_rate: float | None = None
    second_outcomes: Sequence[Outcome] = ()
    earlier: Sequence[Outcome] = ()

    @property
    def scores(self) -> tuple[float | None, ...]:
        return tuple(outcome.score for outcome in self.outcomes)

    @property
    def second_scores(self) -> tuple[float | None, ...] | None:
        """None where there is no second rate."""
        if self.second_rate is None:
            return None
        return tuple(outcome.score for outcome in self.second_outcomes)


@dataclass(frozen=True)
class History:
    """What a row needs of a run's records.

    ``gap``: test loss - training loss at the end, the latter over the last epoch; None for a run that
    diverged and where a task measures no loss.
    """

    tests: tuple[tuple[int, float], ...]
    gap: float | None


def history(outcome: Outcome) -> History:
    """Read the records of a run that has ended."""
    result = outcome.result
    assert result is not None
    records = record.read(outcome.folder)
    tests = [
        (entry["step"], entry[result.score_name])
        for entry in records
        if entry["kind"] in record.SCORED and result.score_name in entry
    ]
    trained = [entry for entry in records if entry["kind"] == "train"]
    gap = None
    if trained and not result.diverged and "loss" in result.final:
        last = [entry["loss"] for entry in trained if entry["epoch"] > trained[-1]["epoch"] - 1]
        gap = result.final["loss"] - mean(last)
    return History(tuple(tests), gap)


def judge(
    entries: Sequence[Entry],
    finals: Mapping[str, Finals],
    seeds: Sequence[int],
    tuning_seeds: int = 0,
) -> tuple[Row, ...]:
    """The rows of a table, still without their sentences; the first entry is the baseline.

    Args:
        entries: the settings.
        finals: their runs, by name.
        seeds: of the runs.
        tuning_seeds: on how many the rates were chosen; 0 where they were given.
    """
    table = RunTable(entries, finals, seeds, tuning_seeds)
    return tuple(table.row(entry) for entry in entries)


class RunTable:
    """Everything about the runs that more than one row needs."""

    def __init__(
        self,
        entries: Sequence[Entry],
        finals: Mapping[str, Finals],
        seeds: Sequence[int],
        tuning_seeds: int,
    ) -> None:
        self.tuning_seeds = tuning_seeds
        self.baseline, self.finals, self.seeds = entries[0], finals, seeds
        self.scores = {name: runs.scores for name, runs in finals.items()}
        self.higher_is_better = higher_is_better(
            run for runs in finals.values() for run in runs.outcomes
        )
        self.histories = {
            name: [
                None if outcome.result is None else history(outcome) for outcome in runs.outcomes
            ]
            for name, runs in finals.items()
        }
        pairs = {
            (entry.name, other): self._pair(entry.name, other)
            for entry in entries[1:]
            for other in dict.fromkeys((self.baseline.name, entry.control))
            if other is not None and share_a_seed(self.scores[entry.name], self.scores[other])
        }
        self.differences = differences(pairs)

    def _pair(self, name: str, other: str) -> Judgement:
        one, two = self.finals[name], self.finals[other]
        return judge_pair(
            (one.scores, one.second_scores),
            (two.scores, two.second_scores),
            self.higher_is_better,
            self.tuning_seeds,
        )

    def row(self, entry: Entry) -> Row:
        name = entry.name
        finals, scores = self.finals[name], self.scores[name]
        outcomes = finals.outcomes
        there = [score for score in scores if score is not None]
        histories = [run for run in self.histories[name] if run is not None]
        gaps = [run.gap for run in histories if run.gap is not None]
        times = [outcome.result.seconds_per_step for outcome in outcomes if outcome.result]
        learned_nothing = self._at_chance(name)
        nothing_learned = self._at_chance(self.baseline.name)
        # a goal at chance is reached by chance
        steps = [] if nothing_learned else self._steps_to_baseline(name)
        failed = {
            seed: outcome.error
            for seed, outcome in zip(self.seeds, outcomes, strict=True)
            if outcome.result is None
        }
        vs_baseline = self.differences.get((name, self.baseline.name))
        vs_control = self.differences.get((name, entry.control or ""))
        word = vs_baseline.verdict if vs_baseline else "failed"
        if entry is self.baseline:
            word = "baseline"
        elif learned_nothing and nothing_learned:
            word = "nothing learned"
        return Row(
            setting=name,
            also=entry.also,
            kind=entry.setting.kind,
            changes=changes(self.baseline.setting, entry.setting),
            scores=scores,
            mean=mean(there) if there else None,
            std=deviation(there),
            diverged=sum(outcome.result.diverged for outcome in outcomes if outcome.result),
            failed=failed,
            vs_baseline=vs_baseline,
            control=entry.control,
            vs_control=vs_control,
            train_test_gap=mean(gaps) if gaps else None,
            seconds_per_step=statistics.median(times) if times else None,
            steps_to_baseline=_median_or_never(steps),
            reached=sum(map(math.isfinite, steps)),
            at_chance=learned_nothing,
            verdict=word,
            sentence="",
            activated=entry.setting.config.optimizer.activation is not None,
            rate=finals.rate,
            second_rate=finals.second_rate,
            second_scores=finals.second_scores or (),
            earlier=tuple(outcome.score for outcome in finals.earlier),
        )

    def _at_chance(self, name: str) -> bool:
        return at_chance(
            [outcome.result for outcome in self.finals[name].outcomes if outcome.result]
        )

    def _steps_to_baseline(self, name: str) -> list[float]:
        """For each seed the step of the first test that was as good as the baseline's last; inf for never."""
        steps = []
        for goal, seen in zip(self.scores[self.baseline.name], self.histories[name], strict=True):
            if goal is None or seen is None:
                continue
            good = (
                step
                for step, score in seen.tests
                if (score >= goal if self.higher_is_better else score <= goal)
            )
            steps.append(next(good, math.inf))
        return steps


def at_chance(results: Sequence[Result]) -> bool:
    """Whether runs came to an end, each says what chance is, and none of them scored better."""
    return bool(results) and not any(result.learned for result in results)


def differences(pairs: Mapping[tuple[Key, str], Judgement]) -> dict[tuple[Key, str], Difference]:
    """All comparisons of a study, by what is compared and against what; p-values allow for how many."""
    corrected = holm({key: pair.p for key, pair in pairs.items()})
    return {
        key: Difference(
            against=key[1],
            mean=pair.at_best.mean,
            low=pair.at_best.low,
            high=pair.at_best.high,
            p=pair.p,
            p_corrected=corrected[key],
            n=pair.at_best.n,
            verdict=pair.verdict(corrected[key]),
            p_alone=pair.at_best.p,
        )
        for key, pair in pairs.items()
    }


def changes(baseline: Setting, setting: Setting) -> dict[str, str]:
    """The keys of the config in which a setting differs from the baseline."""
    before, after = (dict(one.config.optimizer) for one in (baseline, setting))
    return {
        f"optimizer.{key}": f"{value:g}" if isinstance(value, float) else str(value)
        for key, value in after.items()
        if value != before[key]
        and key != "script"  # what a script decides is not changed by a setting
    }


def _median_or_never(steps: Sequence[float]) -> float | None:
    median = statistics.median(steps) if steps else math.inf
    return median if math.isfinite(median) else None
