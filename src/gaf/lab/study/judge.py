"""From runs to rows: scores, differences seed by seed, and a sentence for each setting."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gaf.lab.engine import record
from gaf.lab.study.comparison import Difference, Row, Tuning
from gaf.lab.study.grid import Outcome
from gaf.lab.study.sentences import sentences
from gaf.lab.study.settings import Setting
from gaf.lab.study.statistics import Paired, deviation, holm, paired, verdict


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
        (each["step"], each[result.score_name])
        for each in records
        if each["kind"] == "test" and result.score_name in each
    ]
    trained = [each for each in records if each["kind"] == "train"]
    gap = None
    if trained and not result.diverged and "loss" in result.final:
        last = [each["loss"] for each in trained if each["epoch"] > trained[-1]["epoch"] - 1]
        gap = result.final["loss"] - _mean(last)
    return History(tuple(tests), gap)


def judge(
    entries: Sequence[Entry],
    outcomes: Mapping[str, Sequence[Outcome]],
    seeds: Sequence[int],
    tuning: Tuning | None = None,
) -> tuple[Row, ...]:
    """The rows of a table; the first entry is the baseline.

    Args:
        entries: the settings.
        outcomes: by name of the setting, in the order of the seeds.
        seeds: of the runs.
        tuning: what the tuned baseline's sentence tells.
    """
    table = RunTable(entries, outcomes, seeds)
    return sentences([table.row(entry) for entry in entries], tuning)


class RunTable:
    """Everything about the runs that more than one row needs."""

    def __init__(
        self,
        entries: Sequence[Entry],
        outcomes: Mapping[str, Sequence[Outcome]],
        seeds: Sequence[int],
    ) -> None:
        self.baseline, self.outcomes, self.seeds = entries[0], outcomes, seeds
        self.scores = {
            entry.name: tuple(
                None if each.result is None else each.result.score for each in outcomes[entry.name]
            )
            for entry in entries
        }
        results = [each.result for some in outcomes.values() for each in some if each.result]
        self.higher_is_better = results[0].higher_is_better if results else True
        self.histories = {
            name: [None if each.result is None else history(each) for each in some]
            for name, some in outcomes.items()
        }
        self.pairs = self._pairs(entries)
        self.corrected = holm({key: found.p for key, found in self.pairs.items()})

    def _pairs(self, entries: Sequence[Entry]) -> dict[tuple[str, str], Paired]:
        """Every comparison of the table, by the names of both settings."""
        found = {}
        for entry in entries[1:]:
            for other in (self.baseline.name, entry.control):
                key = (entry.name, other or "")
                if other is None or key in found or not self._share(entry.name, other):
                    continue
                found[key] = paired(self.scores[entry.name], self.scores[other])
        return found

    def _share(self, one: str, other: str) -> bool:
        """Whether there is a seed on which both ran to the end."""
        both = zip(self.scores[one], self.scores[other], strict=True)
        return any(None not in pair for pair in both)

    def row(self, entry: Entry) -> Row:
        name = entry.name
        outcomes, scores = self.outcomes[name], self.scores[name]
        there = [score for score in scores if score is not None]
        histories = [each for each in self.histories[name] if each is not None]
        gaps = [each.gap for each in histories if each.gap is not None]
        times = [each.result.seconds_per_step for each in outcomes if each.result]
        at_chance, nothing_learned = self._at_chance(name), self._at_chance(self.baseline.name)
        # a goal at chance is reached by chance
        steps = [] if nothing_learned else self._steps_to_baseline(name)
        failed = {
            seed: each.error
            for seed, each in zip(self.seeds, outcomes, strict=True)
            if each.result is None
        }
        vs_baseline = self._difference(name, self.baseline.name)
        vs_control = self._difference(name, entry.control)
        word = vs_baseline.verdict if vs_baseline else "failed"
        if entry is self.baseline:
            word = "baseline"
        elif at_chance and nothing_learned:
            word = "nothing learned"
        return Row(
            setting=name,
            also=entry.also,
            kind=entry.setting.kind,
            changes=changes(self.baseline.setting, entry.setting),
            scores=scores,
            mean=_mean(there) if there else None,
            std=deviation(there),
            diverged=sum(each.result.diverged for each in outcomes if each.result),
            failed=failed,
            vs_baseline=vs_baseline,
            control=entry.control,
            vs_control=vs_control,
            train_test_gap=_mean(gaps) if gaps else None,
            seconds_per_step=statistics.median(times) if times else None,
            steps_to_baseline=_median_or_never(steps),
            reached=sum(map(math.isfinite, steps)),
            at_chance=at_chance,
            verdict=word,
            sentence="",
        )

    def _at_chance(self, name: str) -> bool:
        """Whether runs came to an end, each says what chance is, and none of them scored better."""
        results = [each.result for each in self.outcomes[name] if each.result]
        return bool(results) and not any(result.learned for result in results)

    def _difference(self, name: str, other: str | None) -> Difference | None:
        found = self.pairs.get((name, other or ""))
        if found is None or other is None:
            return None
        p_corrected = self.corrected[name, other]
        return Difference(
            against=other,
            mean=found.mean,
            low=found.low,
            high=found.high,
            p=found.p,
            p_corrected=p_corrected,
            n=found.n,
            verdict=verdict(found, p_corrected, self.higher_is_better),
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


def changes(baseline: Setting, setting: Setting) -> dict[str, str]:
    """The keys of the config in which a setting differs from the baseline."""
    before, after = (dict(each.config.optimizer) for each in (baseline, setting))
    return {
        f"optimizer.{key}": f"{value:g}" if isinstance(value, float) else str(value)
        for key, value in after.items()
        if value != before[key]
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _median_or_never(steps: Sequence[float]) -> float | None:
    found = statistics.median(steps) if steps else math.inf
    return found if math.isfinite(found) else None
