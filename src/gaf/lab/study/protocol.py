"""The protocol in numbers: a grid of rates for every rule, its two best rates, a verdict on fresh seeds.

Every rule is tuned alike: rates a factor apart around its usual one, on tuning seeds and validation data; a
best rate at an edge makes the grid grow. A rule tuned on a few seeds and tested against a differently tuned
copy of itself is "different" too often, so final seeds run at the two best rates of each rule, and a verdict
has to hold at both (`python docs/protocol.py` simulates it). Nothing here trains or reads a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gaf.common.errors import GafError
from gaf.lab.study.statistics import LEVEL, Paired, Verdict, mean, paired, share_a_seed

COUNT, RATIO, GROWTH = (
    7,
    3.0,
    2,
)  # rates of a grid, the factor between two, how many it grows a side
DIGITS = 12  # significant ones: rates and means closer than that are the same
MOST_SEEDS = 100_000

Scores = Sequence[float | None]  # by seed; None for a run that failed


def significant(value: float) -> float:
    """A number without its rounding error, so that what is equal on paper is equal here.

    Example:
        >>> 3 * 0.1, significant(3 * 0.1)
        (0.30000000000000004, 0.3)
    """
    return float(f"{value:.{DIGITS}g}")


def grid(usual: float, count: int = COUNT, ratio: float = RATIO) -> tuple[float, ...]:
    """Rates a factor apart with the usual one in the middle; of an even number one more is above it.

    Example:
        >>> grid(0.1, 5)
        (0.0111111111111, 0.0333333333333, 0.1, 0.3, 0.9)
    """
    if not (0 < usual < math.inf):
        raise GafError(f"a learning rate of {usual} cannot be tuned: it must be above 0")
    if count < 1 or not (1 < ratio < math.inf):
        raise GafError(
            f"a grid has at least one rate and a factor above 1, not {count} and {ratio}"
        )
    return tuple(_rate(usual, ratio, k) for k in range(-((count - 1) // 2), count // 2 + 1))


def _rate(usual: float, ratio: float, exponent: int) -> float:
    return significant(usual * ratio**exponent)


@dataclass(frozen=True)
class RateCurve:
    """The trials of one rule: for every rate, in rising order, the scores by tuning seed.

    A run that diverged has the task's worst score (inf for a loss), one that failed has None. A rule
    without a learning rate has one rate, which stands for nothing.
    """

    rates: tuple[float, ...]
    scores: tuple[tuple[float | None, ...], ...]
    usual: float
    higher_is_better: bool

    def __post_init__(self) -> None:
        if not self.rates or list(self.rates) != sorted(set(self.rates)):
            raise ValueError("rates are in rising order, at least one")
        if len({len(scores) for scores in self.scores}) != 1 or not self.scores[0]:
            raise ValueError("every rate has a score for every seed, None where it failed")
        if len(self.scores) != len(self.rates):
            raise ValueError("there are as many rows of scores as rates")
        best_of_all = math.inf if self.higher_is_better else -math.inf
        for score in (score for scores in self.scores for score in scores if score is not None):
            if math.isnan(score) or score == best_of_all:
                raise GafError(
                    f"a score of {score} cannot be ranked: report a number, for a training that "
                    "diverged the worst score there is"
                )

    @classmethod
    def of(cls, scores: Mapping[float, Scores], usual: float, higher_is_better: bool) -> RateCurve:
        """A curve from the scores of each rate, in any order."""
        rates = tuple(sorted(scores))
        return cls(rates, tuple(tuple(scores[rate]) for rate in rates), usual, higher_is_better)

    @property
    def means(self) -> dict[float, float | None]:
        """The mean of the scores there are at each rate; None where all runs failed.

        Example:
            >>> RateCurve.of({0.3: [None, None], 0.1: [0.9, None]}, 0.1, True).means
            {0.1: 0.9, 0.3: None}
        """
        means: dict[float, float | None] = {}
        for rate, scores in zip(self.rates, self.scores, strict=True):
            finished = [score for score in scores if score is not None]
            means[rate] = significant(mean(finished)) if finished else None
        return means

    @property
    def ranked(self) -> tuple[float, ...]:
        """Rates with a finite mean, the best first; of equal ones the nearer to the usual rate.

        Where no mean is finite all rates that did not fail are there, in the same order.

        Example:
            >>> RateCurve.of({0.1: [2.0], 0.3: [1.0], 0.9: [1.0], 2.7: [math.inf]}, 0.1, False).ranked
            (0.3, 0.9, 0.1)
        """
        heights = self.heights
        finite = [rate for rate in self.nearest if math.isfinite(heights[rate])]
        ran = finite or [rate for rate in self.nearest if self.means[rate] is not None]
        return tuple(sorted(ran, key=lambda rate: -heights[rate]))

    @property
    def nearest(self) -> tuple[float, ...]:
        """The rates, the nearest to the usual one first; of two as near the lower."""
        distances = {rate: significant(abs(math.log(rate / self.usual))) for rate in self.rates}
        return tuple(sorted(self.rates, key=lambda rate: distances[rate]))

    @property
    def heights(self) -> dict[float, float]:
        """The means as heights, where more is better: a loss with its sign changed, -inf for None."""
        sign = 1 if self.higher_is_better else -1
        return {
            rate: -math.inf if value is None else sign * value for rate, value in self.means.items()
        }

    @property
    def best(self) -> float | None:
        """The best rate; None where all runs of all rates failed."""
        return self.ranked[0] if self.ranked else None

    @property
    def second(self) -> float | None:
        """The second best rate; None where there is none that learned."""
        return self.ranked[1] if len(self.ranked) > 1 else None


def growth(
    curve: RateCurve, count: int = COUNT, ratio: float = RATIO, most: int = GROWTH
) -> tuple[float, ...]:
    """The rates to try next: one beyond an edge that is better than all rates within.

    None is more than `most` steps beyond the grid of `count` rates that the curve began with. Equal means,
    or none that is finite, say nothing about where to go, and neither does a single rate.

    Example:
        >>> trials = dict(zip(grid(0.1, 3), ([0.5], [0.7], [0.9]), strict=True))
        >>> growth(RateCurve.of(trials, 0.1, True), count=3)
        (0.9,)
    """
    heights = curve.heights
    top, inner = max(heights.values()), curve.rates[1:-1]
    if top == -math.inf or len(set(heights.values())) == 1:
        return ()
    if any(heights[rate] == top for rate in inner):
        return ()
    sides = ((curve.rates[0], -1, (count - 1) // 2 + most), (curve.rates[-1], 1, count // 2 + most))
    following = []
    for edge, direction, limit in sides:
        exponent = round(math.log(edge / curve.usual) / math.log(ratio))
        if heights[edge] == top and direction * exponent < limit:
            following.append(_rate(curve.usual, ratio, exponent + direction))
    return tuple(following)


@dataclass(frozen=True)
class Judgement:
    """A rule against the baseline on the final seeds.

    `p` is the larger of the two-sided p-values that the verdict needs, before Holm's correction, and 1
    where they do not point one way; `at_best` compares the best rates, for the mean and its interval.
    """

    p: float
    direction: Verdict
    at_best: Paired

    def verdict(self, p_corrected: float) -> Verdict:
        """What may be said after the correction for all comparisons of the table."""
        return self.direction if p_corrected < LEVEL else "no difference"


def judge_pair(
    rule: tuple[Scores, Scores | None],
    baseline: tuple[Scores, Scores | None],
    higher_is_better: bool,
) -> Judgement:
    """The verdict of two rates: each side has its final scores at its best and at its second rate, by seed.

    Better: the rule at its best rate beats the baseline at both of the baseline's. Worse: the baseline
    at its best beats the rule at both of the rule's. The best against the best is in both, so no rule is
    better and worse. Without a second rate (None) the best alone has to be beaten; a second rate all of
    whose runs failed decides nothing, and p is 1.

    Example:
        >>> sgd = [0.90, 0.92, 0.91], [0.90, 0.91, 0.89]
        >>> judgement = judge_pair(([0.95, 0.96, 0.96], [0.5, 0.9, 0.9]), sgd, higher_is_better=True)
        >>> judgement.direction, round(judgement.p, 4), round(judgement.at_best.mean, 4)
        ('better', 0.0136, 0.0467)
    """
    at_best = paired(rule[0], baseline[0])
    direction = _direction(rule[0], baseline[0], at_best, higher_is_better)
    if direction == "no difference":
        return Judgement(1.0, direction, at_best)
    other = (rule[0], baseline[1]) if direction == "better" else (rule[1], baseline[0])
    scores, reference = other
    if scores is None or reference is None:
        return Judgement(at_best.p, direction, at_best)
    if not share_a_seed(scores, reference):
        return Judgement(1.0, "no difference", at_best)
    second = paired(scores, reference)
    if _direction(scores, reference, second, higher_is_better) != direction:
        return Judgement(1.0, "no difference", at_best)
    return Judgement(max(at_best.p, second.p), direction, at_best)


def _direction(scores: Scores, reference: Scores, pair: Paired, higher_is_better: bool) -> Verdict:
    """Where the mean of the differences points; nowhere if most of the signs point the other way.

    The second matters for infinite means: better on nine seeds and diverged on the tenth is neither.
    """
    pairs = zip(scores, reference, strict=True)
    signs = sum((a > b) - (a < b) for a, b in pairs if a is not None and b is not None)
    if math.isinf(pair.mean) and signs * pair.mean <= 0:
        return "no difference"
    if pair.mean == 0 or math.isnan(pair.mean):
        return "no difference"
    return "better" if (pair.mean > 0) == higher_is_better else "worse"


def seeds_for(difference: float, std: float, level: float = LEVEL, power: float = 0.8) -> int:
    """How many seeds find a difference of this size with this power, by the paired t-test.

    `std` is that of the differences seed by seed; `level` is the p-value to stay below, for a table of m
    comparisons the usual one / m. The power is exact for one rate a side; a second rate as good as
    the first has to be beaten too, which takes more.

    Example:
        >>> seeds_for(difference=1.0, std=1.0), seeds_for(1.0, 1.0, level=0.05 / 7)
        (10, 17)
    """
    if not (0 < difference < math.inf) or not (0 <= std < math.inf):
        raise GafError("name a difference above 0 that is worth finding")
    if not (0 < level < 1 and 0 < power < 1):
        raise GafError("level and power are shares between 0 and 1")
    if std == 0:  # the sign test: 2 / 2^n < level
        return math.floor(1 - math.log2(level)) + 1
    from scipy import special

    effect = min(difference / std, 1e6)  # scipy has no noncentral t far beyond

    def reached(n: int) -> bool:
        critical = float(special.stdtrit(n - 1, 1 - level / 2))
        return float(special.nctdtr(n - 1, effect * math.sqrt(n), critical)) <= 1 - power

    most = 2
    while not reached(most):
        most *= 2
        if most > MOST_SEEDS:
            raise GafError(
                f"a difference of {difference:g} is too small to plan for: it takes more than "
                f"{MOST_SEEDS} seeds"
            )
    return next(n for n in range(max(2, most // 2), most + 1) if reached(n))
