"""A comparison of a script: what is known only after it ran, put in the place of what was assumed.

Before its first run nobody knows the rule and the learning rate of a script. So it is planned under the name
of a default rule, with factors on its rate. What it reports has the rule's name and its rates, and says
whether there was a score on test data at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gaf.common.errors import GafError
from gaf.lab.engine.script import ScriptReport, check_seeds, read_report
from gaf.lab.study.grid import Outcome
from gaf.lab.study.judge import Entry, Finals
from gaf.lab.study.results import RuleCurve, Tuning
from gaf.lab.tasks.base import ScoredOn


@dataclass(frozen=True)
class ScriptFacts:
    """What a script said of itself: the name of its rule, its learning rate, and what it was scored on."""

    rule: str
    rate: float
    scored_on: ScoredOn

    @classmethod
    def of(cls, reports: Sequence[ScriptReport]) -> ScriptFacts:
        """From the reports of the final; a script with a second optimizer has its first one's name."""
        first = next(iter(reports[0].optimizers.values()), None)
        tested = all(report.test is not None for report in reports)
        return cls(
            first.script_rule if first else "script",
            (first.script_rate if first else None) or 1.0,
            "test" if tested else "validation",
        )


def check_first(outcomes: Mapping[str, Sequence[Outcome]]) -> None:
    """Refuse a script that fails, or that no setting could change, before it is trained many times."""
    ((first,),) = outcomes.values()
    if first.result is None:
        raise GafError(
            f"the first run of the script failed: {first.error}. docs/own-script.md shows what a script needs"
        )
    if not read_report(first.folder).optimizers:
        raise GafError(
            "the script made no optimizer with trial.optimizer: every rule and rate would train alike; "
            'write trial.optimizer("sgd", params, lr=...) in the place of torch.optim.SGD(params, lr=...)'
        )


def check_finals(finals: Mapping[str, Finals]) -> None:
    """Refuse a script that does not use its seed: all seeds of every rule have the same score."""
    check_seeds(
        [one.result.score for one in runs.outcomes if one.result and not one.result.diverged]
        for runs in finals.values()
    )


def facts(baseline: str, finals: Mapping[str, Finals]) -> ScriptFacts | None:
    """Of the runs of the baseline; None where none came to an end.

    Raises:
        GafError: some runs have a score on test data and others have none.
    """
    reports = {
        name: [read_report(one.folder) for one in runs.outcomes if one.result]
        for name, runs in finals.items()
    }
    tested = {report.test is not None for several in reports.values() for report in several}
    if len(tested) > 1:
        raise GafError(
            "some runs of the script report a test score and others do not: report test=... at the end of "
            "every run, or never"
        )
    return ScriptFacts.of(reports[baseline]) if reports[baseline] else None


def named(
    said: ScriptFacts, entries: Sequence[Entry], finals: Mapping[str, Finals], tuning: Tuning | None
) -> tuple[list[Entry], dict[str, Finals], Tuning | None]:
    """The same with the script's own rule for the baseline's name, and its rates in the place of factors."""
    old = entries[0].name
    new = said.rule if said.rule not in finals or said.rule == old else f"{said.rule} of the script"
    scales = {
        entry.name: said.rate if "lr" in entry.setting.config.optimizer.script else 1.0
        for entry in entries
    }

    def name(setting: str) -> str:
        return new if setting == old else setting

    renamed = [
        replace(
            entry,
            setting=replace(entry.setting, name=name(entry.name)),
            control=name(entry.control) if entry.control else None,
        )
        for entry in entries
    ]
    scaled = {
        name(setting): replace(
            runs,
            rate=_times(runs.rate, scales[setting]),
            second_rate=_times(runs.second_rate, scales[setting]),
        )
        for setting, runs in finals.items()
    }
    if tuning is None:
        return renamed, scaled, None
    curves = {
        name(setting): _scaled(curve, scales.get(setting, 1.0), scales[old])
        for setting, curve in tuning.curves.items()
    }
    return renamed, scaled, tuning.model_copy(update={"curves": curves})


def _scaled(curve: RuleCurve, scale: float, baseline: float) -> RuleCurve:
    """A curve whose rates are multiplied, beside a baseline whose rates are too."""
    window = curve.window
    if window is not None:
        ends = {"low": window.low * scale, "high": window.high * scale}
        shifted = _times(window.shifted, scale / baseline)
        window = window.model_copy(update={**ends, "shifted": shifted})
    return curve.model_copy(
        update={
            "usual": curve.usual * scale,
            "trials": tuple(
                trial.model_copy(update={"rate": _times(trial.rate, scale)})
                for trial in curve.trials
            ),
            "chosen": _times(curve.chosen, scale),
            "second": _times(curve.second, scale),
            "window": window,
        }
    )


def _times(rate: float | None, scale: float) -> float | None:
    return None if rate is None else rate * scale
