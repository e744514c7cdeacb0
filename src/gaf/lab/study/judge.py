"""From runs to rows: scores, differences seed by seed, and a sentence for each setting."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gaf.lab.engine import record
from gaf.lab.engine.folder import Result
from gaf.lab.study.grid import Outcome
from gaf.lab.study.results import Difference, Row, Tuning
from gaf.lab.study.settings import TUNED, Setting
from gaf.lab.study.statistics import Paired, deviation, holm, mean, paired, share_a_seed, verdict

NOTHING_LEARNED = "nothing learned here"

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
            entry.name: tuple(outcome.score for outcome in outcomes[entry.name])
            for entry in entries
        }
        results = [
            outcome.result for some in outcomes.values() for outcome in some if outcome.result
        ]
        self.higher_is_better = results[0].higher_is_better if results else True
        self.histories = {
            name: [None if outcome.result is None else history(outcome) for outcome in some]
            for name, some in outcomes.items()
        }
        pairs = {
            (entry.name, other): paired(self.scores[entry.name], self.scores[other])
            for entry in entries[1:]
            for other in (self.baseline.name, entry.control)
            if other is not None and share_a_seed(self.scores[entry.name], self.scores[other])
        }
        self.differences = differences(pairs, self.higher_is_better)

    def row(self, entry: Entry) -> Row:
        name = entry.name
        outcomes, scores = self.outcomes[name], self.scores[name]
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
        )

    def _at_chance(self, name: str) -> bool:
        return at_chance([outcome.result for outcome in self.outcomes[name] if outcome.result])

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


def differences(
    pairs: Mapping[tuple[Key, str], Paired], higher_is_better: bool
) -> dict[tuple[Key, str], Difference]:
    """All comparisons of a study, by what is compared and against what; p-values allow for how many."""
    corrected = holm({key: pair.p for key, pair in pairs.items()})
    return {
        key: Difference(
            against=key[1],
            mean=pair.mean,
            low=pair.low,
            high=pair.high,
            p=pair.p,
            p_corrected=corrected[key],
            n=pair.n,
            verdict=verdict(pair, corrected[key], higher_is_better),
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
    }


def _median_or_never(steps: Sequence[float]) -> float | None:
    median = statistics.median(steps) if steps else math.inf
    return median if math.isfinite(median) else None


def sentences(rows: Sequence[Row], tuning: Tuning | None) -> tuple[Row, ...]:
    """The rows of a table, the baseline first, each with its sentence."""
    return tuple(
        row.model_copy(update={"sentence": _sentence(row, rows[0], tuning)}) for row in rows
    )


def _sentence(row: Row, baseline: Row, tuning: Tuning | None) -> str:
    parts = _against_baseline(row, baseline)
    if row.vs_control and row.control != baseline.setting and row.verdict != "nothing learned":
        parts.append(against(row.vs_control, "its matched control"))
        gained = row.vs_baseline is not None and row.vs_baseline.verdict == "better"
        if gained and row.vs_control.verdict != "better":
            parts.append("the slope of f alone may explain the gain")
    if row.kind == "tuned" and tuning:
        parts.append(f"lr {tuning.chosen} was the best on other seeds{_edge(tuning)}")
    n = len(row.scores)
    failed = sum(map(bool, row.failed.values()))  # without an error a seed was not run at all
    counts = {
        "runs diverged": row.diverged,
        "runs failed": failed,
        "seeds not run": len(row.failed) - failed,
    }
    parts += [f"{count} of {n} {what}" for what, count in counts.items() if count]
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _against_baseline(row: Row, baseline: Row) -> list[str]:
    if row is baseline:
        parts = ["what the others are compared with"]
        if row.at_chance:
            parts.append(f"{NOTHING_LEARNED}: no run scored better than chance")
        if TUNED in row.also:
            parts.append("of the learning rates tried, its own was the best on other seeds")
        return parts
    if row.verdict == "nothing learned":
        return [f"{NOTHING_LEARNED}: like the baseline, no run scored better than chance"]
    if row.vs_baseline is None:
        return ["no run to compare with the baseline"]
    if baseline.at_chance:
        return [against(row.vs_baseline, "the baseline, which learned nothing", comma=",")]
    return [against(row.vs_baseline, "the baseline")]


def against(difference: Difference, whom: str, comma: str = "") -> str:
    """A difference in words; ``comma`` stands after ``whom`` where the sentence goes on.

    Example:
        >>> values = dict(against="baseline", p=0.3, p_corrected=0.6, n=5)
        >>> values |= dict(mean=0.004, low=-0.002, high=0.01, verdict="no difference")
        >>> against(Difference(**values), "the baseline")
        'no difference to the baseline at 5 seeds (+0.004, -0.002 to +0.01)'
    """
    if difference.n > 1 and difference.low == difference.high == 0:
        return f"the same scores as {whom} on all {difference.n} seeds"
    numbers = f"{difference.mean:+.3g}"
    if math.isfinite(difference.low) and math.isfinite(difference.high):
        numbers += f", {difference.low:+.3g} to {difference.high:+.3g}"
    if difference.verdict != "no difference":
        p = "< 0.001" if difference.p_corrected < 0.001 else f"{difference.p_corrected:.2g}"
        return f"{difference.verdict} than {whom} ({numbers}, p {p}, {difference.n} seeds)"
    seeds = f"at {difference.n} seeds" if difference.n > 1 else "at one seed, which tells nothing"
    return f"no difference to {whom}{comma} {seeds} ({numbers})"


def _edge(tuning: Tuning) -> str:
    edges = (next(iter(tuning.tried)), next(reversed(tuning.tried)))
    return ", at the edge of what was tried" if tuning.chosen in edges else ""
