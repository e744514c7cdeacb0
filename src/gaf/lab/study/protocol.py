"""The protocol in numbers: a grid of rates for every rule, its two best rates, a verdict on fresh seeds.

Every rule is tuned alike: rates a factor apart around its usual one, on tuning seeds and validation data;
good rates at an edge make the grid grow. A rule tuned on a few seeds and tested against a differently tuned
copy of itself is "different" too often, so final seeds run at the two best rates of each rule, a verdict has
to hold at both, and the luck of tuning counts (docs/protocol.py simulates it). Nothing here trains or reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from gaf.common.errors import GafError
from gaf.lab.study.statistics import LEVEL, Paired, Verdict, mean, paired, share_a_seed

COUNT, RATIO = 7, 3.0  # rates of a grid, and the factor between two
GROWTH = 2  # rates that it grows a side at most
NEAR_THE_BEST = 3  # an edge among so many best rates may hide a better one beyond
FINAL_SEEDS_PER_TUNING_SEED = 2.5  # more do not make a verdict surer, see judge_pair
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


def is_share(scores: Iterable[float | None], higher_is_better: bool) -> bool:
    """Whether scores are shares such as an accuracy.

    Example:
        >>> is_share([0.9, None], True), is_share([0.9], False), is_share([97.0], True)
        (True, False, False)
    """
    return higher_is_better and all(0 <= score <= 1 for score in scores if score is not None)


def point(share: bool, best: float | None) -> float:
    """What a point is: a hundredth of a share, else 1 % of the best score.

    Example:
        >>> point(True, 0.5), point(False, -200.0)
        (0.01, 2.0)
    """
    if share or best is None or not math.isfinite(best):
        return 0.01
    return 0.01 * abs(best)


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
            raise GafError("rates are in rising order, at least one")
        if len({len(scores) for scores in self.scores}) != 1 or not self.scores[0]:
            raise GafError("every rate has a score for every seed, None where it failed")
        if len(self.scores) != len(self.rates):
            raise GafError("there are as many rows of scores as rates")
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
    def point(self) -> float:
        """What a point of its scores is."""
        share = is_share(chain.from_iterable(self.scores), self.higher_is_better)
        return point(share, None if self.best is None else self.means[self.best])

    @property
    def second(self) -> float | None:
        """The second best rate; None where there is none that learned."""
        return self.ranked[1] if len(self.ranked) > 1 else None


def growth(
    curve: RateCurve, count: int = COUNT, ratio: float = RATIO, most: int = GROWTH
) -> tuple[float, ...]:
    """The rates to try next: one beyond an edge among the three best rates, if the best is on its side.

    Not the best alone: on few tuning seeds an inner rate often passes for the best where the curve still
    rises. None is more than `most` steps beyond the grid of `count` rates that the curve began with. An edge
    that an inner rate equals has nothing to gain, and neither has one that diverged.

    Example:
        >>> trials = dict(zip(grid(0.1, 5), ([0.5], [0.6], [0.7], [0.9], [0.8]), strict=True))
        >>> growth(RateCurve.of(trials, 0.1, True), count=5)
        (2.7,)
    """
    heights, rates = curve.heights, curve.rates
    if curve.best is None:
        return ()
    # from the best rate to the low edge minus to the high one: below 0 on the low side
    side = 2 * rates.index(curve.best) - (len(rates) - 1)
    if side == 0:
        return ()
    low, high = (rates[0], -1, (count - 1) // 2), (rates[-1], 1, count // 2)
    edge, direction, first = low if side < 0 else high
    better = sum(height > heights[edge] for height in heights.values())
    equalled = any(heights[rate] == heights[edge] for rate in rates[1:-1])
    if not math.isfinite(heights[edge]) or better >= NEAR_THE_BEST or equalled:
        return ()
    exponent = round(math.log(edge / curve.usual) / math.log(ratio))
    if direction * exponent >= first + most:
        return ()
    return (_rate(curve.usual, ratio, exponent + direction),)


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
    tuning_seeds: int,
) -> Judgement:
    """The verdict of two rates: each side has its final scores at its best and at its second rate, by seed.

    Better: the rule at its best rate beats the baseline at both of the baseline's. Worse: the baseline
    at its best beats the rule at both of the rule's. The best against the best is in both, so no rule is
    better and worse. Without a second rate (None: not tuned) the best alone has to be beaten; a second
    rate all of whose runs failed decides nothing, and p is 1.

    Few tuning seeds can miss the best rate of the side that loses, which no number of final seeds mends. So
    where that side was tuned, on m seeds, the variance of the mean of n differences is taken as s²/n, but no
    less than s²/(2.5 m): with two tuning seeds, as of five final ones.

    Example:
        >>> sgd = [0.90, 0.92, 0.91], [0.90, 0.91, 0.89]
        >>> rule = [0.95, 0.96, 0.96], [0.5, 0.9, 0.9]
        >>> judgement = judge_pair(rule, sgd, higher_is_better=True, tuning_seeds=2)
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
    at_second = paired(scores, reference)
    if _direction(scores, reference, at_second, higher_is_better) != direction:
        return Judgement(1.0, "no difference", at_best)
    p = max(_p_with_tuning(pair, tuning_seeds) for pair in (at_best, at_second))
    return Judgement(p, direction, at_best)


def _p_with_tuning(pair: Paired, tuning_seeds: int) -> float:
    """The p-value of t with the variance that the tuning allows; that of the signs stays."""
    if not 0 < pair.std < math.inf:  # NaN too
        return pair.p
    from scipy import special

    t = pair.mean / pair.std * math.sqrt(pair.n) / _inflation(pair.n, tuning_seeds)
    return 2 * float(special.stdtr(pair.n - 1, -abs(t)))


def _inflation(n: int, tuning_seeds: int) -> float:
    """How much m tuning seeds widen the standard error of n differences: √(max(1/n, 1/(2.5 m)) / (1/n))."""
    return math.sqrt(max(1.0, n / (FINAL_SEEDS_PER_TUNING_SEED * tuning_seeds)))


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


def seeds_for(
    difference: float,
    std: float,
    level: float = LEVEL,
    power: float = 0.8,
    tuning_seeds: int | None = None,
) -> int:
    """How many final seeds find a difference of this size with this power, by the paired t-test.

    `std` is that of the differences seed by seed; `level` is the p-value to stay below, for a table of m
    comparisons the usual one / m. With `tuning_seeds` as :func:`judge_pair` tests it. The power is exact for
    one rate a side; a second rate as good as the first has to be beaten too, which takes more.

    Example:
        >>> seeds_for(difference=1.0, std=1.0), seeds_for(1.0, 1.0, level=0.05 / 7)
        (10, 17)
        >>> seeds_for(2.0, 1.0, level=0.05 / 7, tuning_seeds=2)
        9
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
        if tuning_seeds is not None:
            critical *= _inflation(n, tuning_seeds)
        return float(special.nctdtr(n - 1, effect * math.sqrt(n), critical)) <= 1 - power

    most = 2
    while not reached(most):
        most *= 2
        if most > MOST_SEEDS:
            more = "" if tuning_seeds is None else ", or more tuning seeds"
            raise GafError(
                f"a difference of {difference:g} is too small to plan for: it takes more than "
                f"{MOST_SEEDS} seeds{more}"
            )
    return next(n for n in range(max(2, most // 2), most + 1) if reached(n))
