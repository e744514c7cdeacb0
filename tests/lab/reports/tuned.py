"""A comparison of tuned rules to make pages of: curves over the rate like those of a digits CNN."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gaf.lab.study import words
from gaf.lab.study.judge import differences
from gaf.lab.study.protocol import judge_pair
from gaf.lab.study.results import (
    Comparison,
    RateTrial,
    Row,
    RuleCurve,
    RunRef,
    StudyCost,
    Tuning,
    UsableRates,
    write,
)
from tests.lab.reports.example import write_run

SEEDS, TUNING_SEEDS, WITHIN = (0, 1, 2, 3, 4), (1000, 1001), 0.01
SGD, ARCTAN, TANH = "sgd", "arctan(0.1, 20)@momentum", "tanh(0.1, 20)@momentum"


@dataclass(frozen=True)
class Rule:
    """A rule by its mean validation score at each rate; None where its runs fail.

    ``refined`` are rates beside the ends of the window; ``test`` and ``second`` the mean test scores at the
    best and the second best rate.
    """

    kind: str
    usual: float
    means: Mapping[float, float | None]
    test: float | None = None
    second: float | None = None
    refined: tuple[float, ...] = ()
    activation: str | None = None
    noise: float = 0.003


def at(usual: float, *means: float | None) -> dict[float, float | None]:
    """The means on a grid of rates a factor 3 apart around the usual one."""
    middle = len(means) // 2
    return {float(f"{usual * 3 ** (i - middle):.12g}"): mean for i, mean in enumerate(means)}


RULES: dict[str, Rule] = {
    SGD: Rule(
        "baseline",
        0.1,
        at(0.1, 0.151, 0.44, 0.93, 0.979, 0.72, 0.0, 0.0) | {0.0577: 0.964, 0.173: 0.977},
        *(0.9772, 0.9301),
        refined=(0.0577, 0.173),
    ),
    "clip-norm-1": Rule(
        "rule",
        0.1,
        at(0.1, 0.15, 0.44, 0.92, 0.971, 0.988, 0.985, 0.90) | {0.0577: 0.955, 1.56: 0.961},
        *(0.9801, 0.979),
        refined=(0.0577, 1.56),
        noise=0.005,
    ),
    "adam": Rule(
        "rule",
        0.001,
        at(0.001, 0.55, 0.80, 0.93, 0.968, 0.981, 0.972, 0.60) | {0.00173: 0.977, 0.0156: 0.931},
        *(0.9755, 0.9682),
        refined=(0.00173, 0.0156),
    ),
    ARCTAN: Rule(
        "function",
        0.1,
        at(0.1, 0.40, 0.72, 0.966, 0.984, 0.976, 0.40, 0.078) | {0.0192: 0.91, 0.52: 0.86},
        *(0.9880, 0.9831),
        refined=(0.0192, 0.52),
        activation="arctan(0.1, 20)",
    ),
    TANH: Rule(
        "function",
        0.1,
        at(0.1, 0.39, 0.71, 0.965, 0.985, 0.977, 0.93, 0.078) | {0.0577: 0.978, 0.52: 0.967},
        *(0.9869, 0.9805),
        refined=(0.0577, 0.52),
        activation="tanh(0.1, 20)",
    ),
    "auto": Rule("rule", 1.0, {1.0: 0.986}, 0.9841, activation="auto"),
    "broken": Rule("rule", 0.1, at(0.1, *[None] * 7)),
}


def tuned_comparison(
    rules: Mapping[str, Rule] = RULES,
    *,
    earlier: tuple[int, ...] = (),
    title: str = "digits-cnn-8-epochs",
) -> Comparison:
    """Every rule of the example: one has no rate, one diverges at high rates, one fails."""
    baseline = next(iter(rules))
    scores = {name: _finals(name, rule.test, rule, SEEDS) for name, rule in rules.items()}
    seconds = {
        name: None if len(rule.means) == 1 else _finals(f"{name} 2", rule.second, rule, SEEDS)
        for name, rule in rules.items()
    }
    curves = _curves(rules)
    judged = differences(
        {
            (name, baseline): judge_pair(
                (scores[name], seconds[name]),
                (scores[baseline], seconds[baseline]),
                True,
                len(TUNING_SEEDS),
            )
            for name, rule in rules.items()
            if name != baseline and rule.test is not None
        }
    )
    rows, runs = [], []
    for number, (name, rule) in enumerate(rules.items()):
        there = [score for score in scores[name] if score is not None]
        difference = judged.get((name, baseline))
        error = "" if there else "RuntimeError: the optimizer refused its arguments"
        rows.append(
            Row(
                setting=name,
                kind=rule.kind,  # type: ignore[arg-type]
                changes={"optimizer.activation": rule.activation} if rule.activation else {},
                scores=scores[name],
                mean=statistics.fmean(there) if there else None,
                std=statistics.stdev(there) if there else None,
                diverged=0,
                failed={} if there else dict.fromkeys(SEEDS, error),
                vs_baseline=difference,
                control=None,
                vs_control=None,
                train_test_gap=0.03 if there else None,
                seconds_per_step=0.0031 + 0.0001 * number if there else None,
                steps_to_baseline=100.0 + number if there else None,
                reached=len(there),
                verdict=(
                    "baseline"
                    if name == baseline
                    else difference.verdict
                    if difference
                    else "failed"
                ),
                sentence="",
                activated=rule.activation is not None,
                rate=curves[name].chosen or rule.usual,
                second_rate=curves[name].second,
                second_scores=seconds[name] or (),
                earlier=_finals(f"{name} earlier", rule.test, rule, earlier),
            )
        )
        runs += [
            RunRef(
                setting=name,
                seed=seed,
                rate=rate,
                folder=f"runs/{number}-{seed}" + ("" if rate is None else "-second"),
                status="failed" if score is None else "finished",
                score=score,
                error=error,
            )
            for rate, several in ((None, scores[name]), (curves[name].second, seconds[name] or ()))
            for seed, score in zip(SEEDS, several, strict=False)
        ]
    comparison = Comparison(
        title=title,
        task="digits-cnn on digits, 8 epochs in batches of 64, sgd with lr 0.1, momentum 0.9",
        score_name="top1",
        higher_is_better=True,
        chance=0.16,
        seeds=SEEDS,
        earlier=earlier,
        baseline=baseline,
        rows=tuple(rows),
        runs=tuple(runs),
        tuning=Tuning(
            seeds=TUNING_SEEDS,
            rates=7,
            ratio=3.0,
            validation=0.2,
            within=WITHIN,
            threshold=_threshold(rules),
            curves=curves,
        ),
        cost=StudyCost(trials=104, finals=65, steps=24_832, seconds=312.4),
        command=("gaf", "compare", "digits-cnn-sgdm"),
        environment={
            "versions": {"python": "3.11.7", "torch": "2.13.0+cpu"},
            "cpu": "A processor",
            "cores": 2,
        },
        created="2026-11-18T10:00:00+00:00",
    )
    return comparison.model_copy(update={"rows": words.sentences(comparison)})


def small_tuning(names: Iterable[str]) -> Tuning:
    """A tuning of two rates for each of some settings, the higher of which was lost."""
    window = UsableRates(
        low=0.05, high=0.2, open_low=True, open_high=False, factor=4.0, widened=1.0, shifted=1.0
    )
    curve = RuleCurve(
        usual=0.1,
        trials=(
            RateTrial(rate=0.1, part="grid", scores=(0.9,), mean=0.9),
            RateTrial(rate=0.3, part="refined", scores=(None,), mean=None),
        ),
        chosen=0.1,
        second=None,
        window=window,
        best_of=(0.9,),
    )
    return Tuning(
        seeds=(1000,),
        rates=2,
        ratio=3.0,
        validation=0.2,
        within=0.01,
        threshold=0.89,
        curves=dict.fromkeys(names, curve),
    )


def tuned_example(folder: Path, **options: object) -> Comparison:
    """The comparison with its record and the folders of its runs."""
    comparison = tuned_comparison(**options)  # type: ignore[arg-type]
    activations = {row.setting: row.changes.get("optimizer.activation") for row in comparison.rows}
    for run in comparison.runs:
        if run.score is not None:
            write_run(folder / run.folder, run.score, run.seed, activations[run.setting])
    write(comparison, folder)
    return comparison


def _finals(
    name: str, mean: float | None, rule: Rule, seeds: tuple[int, ...]
) -> tuple[float | None, ...]:
    """Test scores whose noise differs from seed to seed, and a little from rule to rule."""
    if mean is None:
        return (None,) * len(seeds)
    own = random.Random(name)
    shared = {seed: random.Random(seed).gauss(0, 0.003) for seed in seeds}
    return tuple(round(mean + shared[seed] + own.gauss(0, rule.noise), 4) for seed in seeds)


def _threshold(rules: Mapping[str, Rule]) -> float | None:
    means = [mean for mean in next(iter(rules.values())).means.values() if mean is not None]
    return max(means) - WITHIN if means else None


def _curves(rules: Mapping[str, Rule]) -> dict[str, RuleCurve]:
    threshold = _threshold(rules)
    curves = {}
    reference: UsableRates | None = None
    for name, rule in rules.items():
        window = _window(rule, threshold, reference)
        reference = window if reference is None else reference
        kept = {rate: mean for rate, mean in rule.means.items() if rate not in rule.refined}
        ranked = sorted(
            (rate for rate, mean in kept.items() if mean is not None),
            key=lambda rate: -(kept[rate] or 0),
        )
        curves[name] = RuleCurve(
            usual=rule.usual,
            trials=tuple(
                RateTrial(
                    rate=rate,
                    part="refined" if rate in rule.refined else "grid",
                    scores=_around(rule.means[rate]),
                    mean=rule.means[rate],
                )
                for rate in sorted(rule.means)
            ),
            chosen=ranked[0] if ranked else None,
            second=ranked[1] if len(ranked) > 1 else None,
            window=window,
            best_of=best_of([mean for mean in kept.values() if mean is not None]),
        )
    return curves


def _around(mean: float | None) -> tuple[float | None, float | None]:
    """Two seeds; those of an unstable rate are far apart."""
    if mean is None:
        return None, None
    spread = min(mean, 1 - mean) / (4 if mean < 0.9 else 8)
    return mean - spread, mean + spread


def _window(
    rule: Rule, threshold: float | None, reference: UsableRates | None
) -> UsableRates | None:
    points = [(rate, mean) for rate, mean in sorted(rule.means.items()) if mean is not None]
    if len(points) < 2 or threshold is None or max(mean for _, mean in points) < threshold:
        return None
    best = max(range(len(points)), key=lambda i: points[i][1])

    def end(step: int) -> tuple[float, bool]:
        i = best
        while 0 <= i + step < len(points) and points[i + step][1] >= threshold:
            i += step
        if not 0 <= i + step < len(points):
            return points[i][0], True
        (x, y), (x2, y2) = points[i], points[i + step]
        share = (y - threshold) / (y - y2)
        return math.exp(math.log(x) + share * math.log(x2 / x)), False

    (low, open_low), (high, open_high) = end(-1), end(1)
    factor = high / low
    return UsableRates(
        low=low,
        high=high,
        open_low=open_low,
        open_high=open_high,
        factor=factor,
        shifted=math.sqrt(low * high / (reference.low * reference.high)) if reference else None,
        widened=factor / reference.factor if reference else None,
    )


def best_of(means: list[float]) -> tuple[float, ...]:
    """The expected best of k of them without replacement."""
    ranked, n = sorted(means), len(means)
    return tuple(
        sum(mean * math.comb(i, k - 1) for i, mean in enumerate(ranked)) / math.comb(n, k)
        for k in range(1, n + 1)
    )
