"""The race: candidates by successive halving, neighbours by Optuna, the best against its matched control.

Which candidates go on is decided by the score on the test set, on seeds that nothing else uses. The winner's
own interval is from other seeds again, so it is not flattered by having been chosen.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gaf.common.errors import GafError
from gaf.functions import PAPER
from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.folder import Result
from gaf.lab.study import settings
from gaf.lab.study.grid import RUNS, Executor, Outcome, Watch, digest, run_grid
from gaf.lab.study.judge import differences
from gaf.lab.study.results import Reference
from gaf.lab.study.statistics import mean, paired
from gaf.lab.study.tune.budget import FINAL_SEEDS, FIRST_SEEDS, SECOND_SEEDS, Budget, squeezed
from gaf.lab.study.tune.recommend import Candidate, Recommendation

BATCH = 12  # neighbours asked for at once
ASKED = 20  # times, before a neighbour that is known already is given up
FAMILIES = {family.name: family for family in PAPER}
AT_END = 10**9  # checkpoints


@dataclass
class Raced:
    """A candidate with its scores; None where a run failed."""

    candidate: Candidate
    first: float | None = None
    second: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class SearchOutcome:
    """What came of a search."""

    raced: tuple[Raced, ...]  # best first
    winner: Candidate
    scores: tuple[float | None, ...]
    baseline: Reference
    control: Reference
    score_name: str
    higher_is_better: bool
    steps: int  # counted, the probe included

    @property
    def helps(self) -> bool:
        """Whether the winner beats the baseline and what its slope alone would do."""
        return self.baseline.verdict == self.control.verdict == "better"


@dataclass
class Search:
    """A search on its way: call :meth:`baselines`, then :meth:`race`.

    Args:
        config: the training, without a function.
        budget: how long the races are.
        folder: for the runs; a search that was stopped goes on there.
        executor: trains.
        watch: makes what shows a grid on its way, given a title.
    """

    config: RunConfig
    budget: Budget
    folder: Path
    executor: Executor
    watch: Callable[[str], Watch] = lambda title: Watch()
    counted: dict[str, int] = field(default_factory=dict)  # steps by digest
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        self.base = bare(self.config)
        self._settings: dict[str, str] = {}  # names by digest

    def baselines(self) -> list[Result]:
        """The baseline over the final's seeds, which also gives the curve near an optimum."""
        outcomes = self._run(
            [self._config(settings.BASELINE, seed, self.budget.final) for seed in FINAL_SEEDS],
            "the baseline",
        )
        ended = [outcome.result for outcome in outcomes if outcome.result]
        if not ended:
            raise GafError(f"no run of the baseline came to an end: {outcomes[0].error}")
        self.higher_is_better = ended[0].higher_is_better
        return ended

    def race(self, recommendation: Recommendation) -> SearchOutcome:
        """All rungs, and the final."""
        before = self.baselines()
        raced = self._first(recommendation)
        raced = self._second(raced)
        return self._final(raced, before[0].score_name)

    def _first(self, recommendation: Recommendation) -> list[Raced]:
        """The given candidates, then as many neighbours of the good ones as the budget has room for."""
        count = self.budget.candidates
        given = recommendation.candidates[: max(count // 2, 6)]
        raced = self._scored(given, f"first rung, {len(given)} candidates")
        neighbours = Neighbours(recommendation, self.higher_is_better)
        neighbours.tell(raced)
        while len(raced) < count:
            known = {entry.candidate.name for entry in raced}
            new = neighbours.ask(min(BATCH, count - len(raced)), known)
            if not new:
                break  # there are no others to two digits
            scored = self._scored(new, f"first rung, {len(new)} neighbours of the best so far")
            neighbours.tell(scored)
            raced += scored
        return self._ordered(raced, lambda entry: entry.first)

    def _scored(self, candidates: Sequence[Candidate], title: str) -> list[Raced]:
        runs = [
            self._config(candidate.name, FIRST_SEEDS[0], self.budget.first)
            for candidate in candidates
        ]
        return [
            Raced(candidate, outcome.score)
            for candidate, outcome in zip(candidates, self._run(runs, title), strict=True)
        ]

    def _second(self, raced: list[Raced]) -> list[Raced]:
        best, rest = raced[: self.budget.kept], raced[self.budget.kept :]
        runs = [
            self._config(entry.candidate.name, seed, self.budget.second)
            for entry in best
            for seed in SECOND_SEEDS
        ]
        outcomes = self._run(
            runs, f"second rung, the best {len(best)} on {len(SECOND_SEEDS)} seeds"
        )
        n = len(SECOND_SEEDS)
        for i, entry in enumerate(best):
            entry.second = tuple(outcome.score for outcome in outcomes[i * n : (i + 1) * n])
        return self._ordered(best, lambda entry: _mean_of_all(entry.second)) + rest

    def _final(self, raced: list[Raced], score_name: str) -> SearchOutcome:
        winner = raced[0].candidate
        names = (winner.name, settings.BASELINE, f"control({winner.name})")
        runs = [
            self._config(name, seed, self.budget.final) for name in names for seed in FINAL_SEEDS
        ]
        outcomes = self._run(runs, f"final, {winner.name}, its matched control and the baseline")
        n = len(FINAL_SEEDS)
        scores = {
            name: tuple(outcome.score for outcome in outcomes[i * n : (i + 1) * n])
            for i, name in enumerate(names)
        }
        mine = scores[winner.name]
        pairs = {(winner.name, name): paired(mine, scores[name]) for name in names[1:]}
        baseline, control = (
            Reference(
                name=name,
                scores=scores[name],
                **asdict(pairs[key]),
                verdict=difference.verdict,
            )
            for key, difference in differences(pairs, self.higher_is_better).items()
            for name in (difference.against,)
        )
        return SearchOutcome(
            raced=tuple(raced),
            winner=winner,
            scores=mine,
            baseline=baseline,
            control=control,
            score_name=score_name,
            higher_is_better=self.higher_is_better,
            steps=self.budget.probe + sum(self.counted.values()),
        )

    def _config(self, name: str, seed: int, steps: int) -> RunConfig:
        made = settings.make(self.base, name)
        short = squeezed(made.config, steps, self.budget.total)
        config = short.model_copy(update={"name": f"{self.base.name}: {made.name}", "seed": seed})
        self._settings[digest(config)] = made.name
        return config

    def _run(self, configs: Sequence[RunConfig], title: str) -> list[Outcome]:
        watch = self.watch(title)
        watch.settings(self._settings)
        outcomes = run_grid(configs, self.folder / RUNS, self.executor, watch)
        for config in configs:
            key = digest(config)
            result = outcomes[key].result
            # a run that failed may have trained up to its end: it counts as if it had
            self.counted[key] = result.steps if result else config.iterations or self.budget.total
        return [outcomes[digest(config)] for config in configs]

    def _ordered(self, raced: list[Raced], score: Callable[[Raced], float | None]) -> list[Raced]:
        """Best first; of equally good ones, the one that was raced first."""

        def key(entry: Raced) -> float:
            value = score(entry)
            if value is None or math.isnan(value):
                return math.inf
            return -value if self.higher_is_better else value

        return sorted(raced, key=key)


def bare(config: RunConfig) -> RunConfig:
    """A training without its function, and without what only somebody who watches it needs."""
    plain, _ = settings.without_function(config)
    return plain.model_copy(
        update={
            "threads": plain.threads or 1,
            "evaluate_every": 0,
            "monitor_every": 0,
            "checkpoint_every": AT_END,
        }
    )


class Neighbours:
    """Optuna's tree-structured Parzen estimator over family, placement, log α and log β, seeded."""

    def __init__(self, around: Recommendation, higher_is_better: bool) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        float_, choice = (
            optuna.distributions.FloatDistribution,
            optuna.distributions.CategoricalDistribution,
        )
        places = sorted({candidate.placement for candidate in around.candidates})
        self._space = {
            "family": choice(tuple(FAMILIES)),
            "placement": choice(places),
            "alpha": float_(*around.alphas, log=True),
            "beta": float_(*around.betas, log=True),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=0, n_startup_trials=0, multivariate=True, constant_liar=True
            )
        self._study = optuna.create_study(
            direction="maximize" if higher_is_better else "minimize", sampler=sampler
        )
        self._asked: dict[str, optuna.trial.Trial] = {}

    def ask(self, count: int, known: set[str]) -> list[Candidate]:
        """New candidates, none of them known."""
        new: dict[str, Candidate] = {}
        for _ in range(ASKED * count):
            trial = self._study.ask(self._space)
            values = trial.params
            function = FAMILIES[values["family"]](
                *(float(f"{values[key]:.1e}") for key in ("alpha", "beta"))
            )
            candidate = Candidate(function, values["placement"], "neighbour found by Optuna")
            if candidate.name not in known and candidate.name not in new:
                new[candidate.name] = candidate
                self._asked[candidate.name] = trial
            if len(new) == count:
                break
        return list(new.values())

    def tell(self, raced: Sequence[Raced]) -> None:
        """What came of candidates, asked for or not."""
        from optuna.trial import TrialState, create_trial

        for entry in raced:
            score = entry.first
            failed = score is None or not math.isfinite(score)
            trial = self._asked.get(entry.candidate.name)
            if trial is not None:
                state = TrialState.FAIL if failed else TrialState.COMPLETE
                self._study.tell(trial, None if failed else score, state=state)
            elif not failed and self._holds(entry.candidate):
                self._study.add_trial(
                    create_trial(
                        value=score, params=_values(entry.candidate), distributions=self._space
                    )
                )

    def _holds(self, candidate: Candidate) -> bool:
        """Whether the space has it; a preset may lie outside."""
        values = _values(candidate)
        return all(
            interval.low <= values[key] <= interval.high
            for key, interval in self._space.items()
            if key in ("alpha", "beta")
        )


def _values(candidate: Candidate) -> dict[str, object]:
    alpha, beta = candidate.function.params
    return {
        "family": candidate.function.name,
        "placement": candidate.placement,
        "alpha": alpha,
        "beta": beta,
    }


def _mean_of_all(scores: Sequence[float | None]) -> float | None:
    """None where a run failed."""
    known = [score for score in scores if score is not None]
    return mean(known) if known and len(known) == len(scores) else None
