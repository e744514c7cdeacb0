"""The learning rate of every rule, tuned alike: the same grid, on validation data, on seeds of its own.

Three rounds of runs: the grid; rates beyond an edge that is among a rule's best; and, for the window of
usable rates, one rate beside each of its ends. The last are for the picture and choose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from gaf.common.errors import GafError
from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.folder import Result
from gaf.lab.engine.script import check_seeds
from gaf.lab.study import protocol, results
from gaf.lab.study.grid import Outcome, higher_is_better
from gaf.lab.study.judge import Entry, at_chance
from gaf.lab.study.plan import Plan
from gaf.lab.study.rates import (
    best_of,
    refinements,
    shift_and_widening,
    threshold_of,
    window,
    window_intervals,
)
from gaf.lab.study.results import RateTrial, RuleCurve, Tuning

# Runs by setting, to what came of them by setting.
Train = Callable[[str, Mapping[str, Sequence[RunConfig]]], dict[str, list[Outcome]]]


@dataclass
class RuleTrials:
    """The trials of one rule so far: the outcomes of each rate, and why the rate was tried."""

    entry: Entry
    outcomes: dict[float, list[Outcome]] = field(default_factory=dict)
    parts: dict[float, str] = field(default_factory=dict)

    @property
    def usual(self) -> float:
        return self.entry.setting.config.optimizer.lr

    def results_at(self, rate: float | None) -> list[Result]:
        """Of the runs that came to an end."""
        return [one.result for one in self.outcomes[rate] if one.result] if rate else []

    def curve(self, higher_is_better: bool, *parts: str) -> protocol.RateCurve:
        """The scores over the rates that were tried for these reasons; unset, over all."""
        scores = {
            rate: [outcome.score for outcome in outcomes]
            for rate, outcomes in self.outcomes.items()
            if not parts or self.parts[rate] in parts
        }
        return protocol.RateCurve.of(scores, self.usual, higher_is_better)


def tune_rates(
    plan: Plan, entries: Sequence[Entry], train: Train
) -> tuple[Tuning, dict[str, list[Outcome]]]:
    """The curve of every rule, and what came of its trials: rate by rate, in the order of the seeds.

    Raises:
        GafError: no trial of the baseline came to an end, or a script does not use its seed.
    """
    tuning = plan.tuning
    assert tuning is not None
    rules = [RuleTrials(entry) for entry in entries]

    def add(title: str, part: str, rates: Mapping[str, Sequence[float]]) -> None:
        """Try these rates, by setting."""
        asked = {
            rule.entry.name: {
                rate: plan.trials(rule.entry.setting, rate) for rate in rates[rule.entry.name]
            }
            for rule in rules
            if rates.get(rule.entry.name)
        }
        if not asked:
            return
        flat = {
            name: [run for runs in by_rate.values() for run in runs]
            for name, by_rate in asked.items()
        }
        outcomes = train(title, flat)
        for rule in rules:
            left = iter(outcomes.get(rule.entry.name, ()))
            for rate, runs in asked.get(rule.entry.name, {}).items():
                rule.outcomes[rate] = [next(left) for _ in runs]
                rule.parts[rate] = part

    grids = {
        rule.entry.name: protocol.grid(rule.usual, tuning.rates, tuning.ratio)
        if rule.entry.setting.has_rate
        else (rule.usual,)
        for rule in rules
    }
    add(f"tuning, {tuning.rates} learning rates", "grid", grids)
    if plan.base.task.is_script:
        check_seeds(
            [one.result.score for one in several if one.result and not one.result.diverged]
            for rule in rules
            for several in rule.outcomes.values()
        )
    higher = higher_is_better(
        one for rule in rules for several in rule.outcomes.values() for one in several
    )
    if rules[0].curve(higher).best is None:
        first = next(iter(rules[0].outcomes.values()))[0]
        raise GafError(f"no trial of the baseline came to an end: {first.error}")
    while grown := {
        rule.entry.name: more
        for rule in rules
        if rule.entry.setting.has_rate
        and (more := protocol.growth(rule.curve(higher), tuning.rates, tuning.ratio))
    }:
        add("tuning, beyond the edge", "grown", grown)
    # from the rates of the budget: what refines a window does not move it
    tuned = rules[0].curve(higher)
    within = tuning.within * tuned.point
    # as good as a guess is not good enough
    learned = not at_chance(rules[0].results_at(tuned.best))
    threshold = threshold_of(tuned, within) if learned else None
    if threshold is not None:
        refined = {
            rule.entry.name: refinements(rule.curve(higher), threshold, tuning.ratio)
            for rule in rules
            if rule.entry.setting.has_rate
        }
        add("tuning, the ends of the windows", "refined", refined)
    standard = Standard(rules[0].curve(higher), tuned, within, threshold)
    summary = Tuning(
        seeds=tuning.seed_numbers,
        rates=tuning.rates,
        ratio=tuning.ratio,
        validation=None if plan.base.task.is_script else tuning.validation,
        within=within,
        threshold=threshold,
        curves={
            rule.entry.name: _curve(rule, standard, is_baseline=rule is rules[0]) for rule in rules
        },
    )
    outcomes = {
        rule.entry.name: [one for rate in sorted(rule.outcomes) for one in rule.outcomes[rate]]
        for rule in rules
    }
    return summary, outcomes


@dataclass(frozen=True)
class Standard:
    """What windows are measured by: the tuned baseline.

    Args:
        whole: its curve over all rates, those that refine its window too.
        tuned: its curve over the rates that it was tuned with, whose best decides what is good.
        within: how far below that best a window reaches.
        threshold: the score that is left; None where the baseline learned nothing.
    """

    whole: protocol.RateCurve
    tuned: protocol.RateCurve
    within: float
    threshold: float | None


def _curve(rule: RuleTrials, standard: Standard, is_baseline: bool) -> RuleCurve:
    higher = standard.whole.higher_is_better
    whole, chosen_from = rule.curve(higher), rule.curve(higher, "grid", "grown")
    good = None
    if standard.threshold is not None and rule.entry.setting.has_rate:
        good = _window(whole, standard, standard.threshold, is_baseline)
    return RuleCurve(
        usual=rule.usual,
        trials=tuple(
            RateTrial(
                rate=rate,
                part=rule.parts[rate],  # type: ignore[arg-type]
                scores=scores,
                mean=whole.means[rate],
            )
            for rate, scores in zip(whole.rates, whole.scores, strict=True)
        ),
        chosen=chosen_from.best,
        second=chosen_from.second,
        window=good,
        best_of=_best_of(rule.curve(higher, "grid")),
    )


def _best_of(curve: protocol.RateCurve) -> tuple[float, ...]:
    means = list(curve.means.values())
    return best_of(means, curve.higher_is_better) if any(mean is not None for mean in means) else ()


def _window(
    curve: protocol.RateCurve, standard: Standard, threshold: float, is_baseline: bool
) -> results.UsableRates | None:
    """The window of a rule, and how it differs from the baseline's."""
    own = window(curve, threshold)
    if own is None:
        return None
    intervals = window_intervals(curve, standard.whole, standard.within, standard.tuned)
    reference = None if is_baseline else window(standard.whole, threshold)
    change = shift_and_widening(own, reference) if reference else None
    return results.UsableRates(
        **asdict(own),
        factor=own.factor,
        interval=intervals.factor if intervals else None,
        **(asdict(change) if change else {}),
        widened_interval=intervals.widened if intervals and change else None,
    )
