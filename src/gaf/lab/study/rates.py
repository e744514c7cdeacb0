"""What a rule's curve over the learning rate says: the window of good rates, the score against the budget.

The window is the contiguous range around a rule's best rate in which its mean validation score, interpolated
linearly in log(rate), is at least the tuned baseline's best minus a point: how far a rate may be off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gaf.common.errors import GafError
from gaf.lab.study.protocol import RATIO, RateCurve, significant
from gaf.lab.study.results import Bound
from gaf.lab.study.statistics import CONFIDENCE

DRAWS = 2000
SEEDS_FOR_AN_INTERVAL = 5

Range = tuple[float, float]


@dataclass(frozen=True)
class RateWindow:
    """The rates from `low` to `high`; an end is open where the curve ends before it falls below."""

    low: float
    high: float
    open_low: bool
    open_high: bool

    @property
    def factor(self) -> float:
        """The width: the highest rate by the lowest."""
        return self.high / self.low

    @property
    def centre(self) -> float:
        """The middle on a logarithmic axis."""
        return math.sqrt(self.low) * math.sqrt(self.high)


def threshold_of(baseline: RateCurve, within: float) -> float | None:
    """The score that a window is made of: the baseline's best mean, worse by `within`; None if it has none.

    Example:
        >>> threshold_of(RateCurve.of({0.1: [2.5], 0.3: [2.0]}, 0.1, higher_is_better=False), 0.25)
        2.25
    """
    best = max(baseline.heights.values())
    if best == -math.inf:
        return None
    height = significant(best - within)
    return height if baseline.higher_is_better else -height


def window(curve: RateCurve, threshold: float) -> RateWindow | None:
    """The window of a curve; None where its best rate does not reach the threshold.

    Beside a rate that diverged or failed there is nothing to interpolate: the last good rate is the end.

    Example:
        >>> curve = RateCurve.of({0.01: [0.8], 0.1: [0.9], 1.0: [0.7], 10.0: [0.1]}, 0.1, True)
        >>> window(curve, 0.8)
        RateWindow(low=0.01, high=0.316227766017, open_low=True, open_high=False)
    """
    ends = _ends_at(curve, threshold)
    if ends.empty[0]:
        return None
    low, high = (significant(math.exp(end[0])) for end in (ends.low, ends.high))
    return RateWindow(low, high, bool(ends.before[0] < 0), bool(ends.after[0] == len(curve.rates)))


def refinements(curve: RateCurve, threshold: float, ratio: float = RATIO) -> tuple[float, ...]:
    """The rates that make a window sharper: in the middle of the two rates around each of its ends.

    Only where these are a step of the grid apart, so a gap is refined once. Rates for the final runs are
    chosen before: a refined rate is no part of the budget that all rules share.

    Example:
        >>> curve = RateCurve.of({0.1: [0.9], 0.3: [0.9], 0.9: [0.1]}, 0.1, True)
        >>> refinements(curve, 0.8)
        (0.519615242271,)
    """
    ends, rates = _ends_at(curve, threshold), curve.rates
    before, after = int(ends.before[0]), int(ends.after[0])
    gaps = [(before, before + 1)] if before >= 0 else []
    gaps += [(after - 1, after)] if after < len(rates) else []
    return tuple(
        significant(math.sqrt(rates[left]) * math.sqrt(rates[right]))
        for left, right in gaps
        if not ends.empty[0] and rates[right] / rates[left] > ratio**0.75
    )


@dataclass(frozen=True)
class WindowIntervals:
    """Intervals of a rule's window and of how it differs from the baseline's."""

    factor: Range
    shifted: Range
    widened: Range


def window_intervals(
    rule: RateCurve,
    baseline: RateCurve,
    within: float,
    tuned: RateCurve | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> WindowIntervals | None:
    """95 % intervals by bootstrap over tuning seeds, all rates of a seed together; None below five seeds.

    A draw takes the same seeds for the rule and for the baseline, whose best decides what is good: that of
    ``tuned``, where the baseline has more rates than those it was tuned with. A draw in
    which the rule has no window counts with a factor of 1 around its best rate. Percentiles of few seeds
    are too narrow: simulated, they cover 86 % at five seeds and 90 % at ten.

    Example:
        >>> good, bad = [0.9, 0.8, 0.9, 0.9, 0.8], [0.1, 0.2, 0.4, 0.1, 0.3]
        >>> sgd = RateCurve.of({0.1: good, 0.3: bad, 0.9: bad}, 0.1, True)
        >>> other = RateCurve.of({0.1: good, 0.3: good, 0.9: bad}, 0.1, True)
        >>> [round(end, 2) for end in window_intervals(other, sgd, 0.01).widened]
        [3.0, 3.0]
    """
    n = len(rule.scores[0])
    if len(baseline.scores[0]) != n:
        raise GafError("both curves have the same tuning seeds")
    if n < SEEDS_FOR_AN_INTERVAL:
        return None
    picks = np.random.default_rng(seed).integers(n, size=(draws, n))
    of_baseline, of_rule = _resampled(baseline, picks), _resampled(rule, picks)
    of_tuned = of_baseline if tuned is None else _resampled(tuned, picks)
    levels = _significant(of_tuned.max(axis=1) - within)
    base, own = _ends(baseline, of_baseline, levels), _ends(rule, of_rule, levels)
    widths = own.high - own.low
    shifts = (own.low + own.high) / 2 - (base.low + base.high) / 2
    ranges = [_range(value) for value in (widths, shifts, widths - (base.high - base.low))]
    return WindowIntervals(*ranges)


def _range(logarithms: np.ndarray) -> Range:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.exp(np.quantile(logarithms, [tail, 1 - tail]))
    return float(low), float(high)


def _significant(values: np.ndarray) -> np.ndarray:
    return np.array([significant(value) for value in values.flat]).reshape(values.shape)


def _resampled(curve: RateCurve, picks: np.ndarray) -> np.ndarray:
    """Heights [draw, rate]: means of the scores of the seeds picked, -inf where all of them failed."""
    sign = 1 if curve.higher_is_better else -1
    scores = np.array(curve.scores, dtype=float)[:, picks]  # [rate, draw, seed], None is NaN
    there = ~np.isnan(scores)
    total = np.where(there, sign * scores, 0.0).sum(axis=2)
    count = there.sum(axis=2)
    return _significant(np.where(count > 0, total / np.maximum(count, 1), -np.inf).T)


@dataclass(frozen=True)
class _Ends:
    """Windows of many curves: logarithms of their ends, and the nearest rates outside (-1 and n: none)."""

    low: np.ndarray
    high: np.ndarray
    before: np.ndarray
    after: np.ndarray
    empty: np.ndarray


def _ends_at(curve: RateCurve, threshold: float) -> _Ends:
    level = threshold if curve.higher_is_better else -threshold
    heights = np.array([list(curve.heights.values())])
    return _ends(curve, heights, np.array([significant(level)]))


def _ends(curve: RateCurve, heights: np.ndarray, levels: np.ndarray) -> _Ends:
    """The windows of heights [draw, rate] at a level for each draw; an empty one is the best rate alone."""
    n, draws = len(curve.rates), np.arange(len(heights))
    order = np.array([curve.rates.index(rate) for rate in curve.nearest])
    best = order[heights[:, order].argmax(axis=1)]  # the first of equal ones
    inside = (heights >= levels[:, None]) & np.isfinite(heights)
    index = np.arange(n)
    after = np.where(~inside & (index > best[:, None]), index, n).min(axis=1)
    before = np.where(~inside & (index < best[:, None]), index, -1).max(axis=1)
    empty = ~inside[draws, best]
    x = np.log(curve.rates)

    def crossing(last: np.ndarray, outside: np.ndarray) -> np.ndarray:
        """Where the line from the last rate inside to the first outside meets the level."""
        beyond = np.clip(outside, 0, n - 1)
        top, bottom = heights[draws, last], heights[draws, beyond]
        meets = np.isfinite(bottom) & (bottom < levels) & ~empty
        with np.errstate(invalid="ignore"):  # inf - inf, where nothing meets
            share = np.where(meets, top - levels, 0.0) / np.where(meets, top - bottom, 1.0)
        return x[last] + share * (x[beyond] - x[last])

    low = crossing(np.where(empty, best, before + 1), before)
    high = crossing(np.where(empty, best, after - 1), after)
    return _Ends(low, high, before, after, empty)


@dataclass(frozen=True)
class WindowChange:
    """A rule's window against the baseline's: factors, and what open ends make of them."""

    shifted: float
    widened: float
    shifted_is: Bound
    widened_is: Bound


def shift_and_widening(rule: RateWindow, baseline: RateWindow) -> WindowChange:
    """Shifted by: the ratio of the centres; widened by: the ratio of the factors high / low.

    A window with an open end may be wider than seen, which makes "at least" or "at most" of a number.

    Example:
        >>> sgd, arctan = RateWindow(0.1, 0.2, False, False), RateWindow(0.1, 0.8, False, True)
        >>> change = shift_and_widening(arctan, sgd)
        >>> round(change.shifted, 6), change.shifted_is, round(change.widened, 6), change.widened_is
        (2.0, 'at least', 4.0, 'at least')
    """
    wider, narrower = rule.open_low or rule.open_high, baseline.open_low or baseline.open_high
    higher, lower = rule.open_high or baseline.open_low, rule.open_low or baseline.open_high
    return WindowChange(
        shifted=rule.centre / baseline.centre,
        widened=rule.factor / baseline.factor,
        shifted_is=_bound(higher, lower),
        widened_is=_bound(wider, narrower),
    )


def _bound(may_be_more: bool, may_be_less: bool) -> Bound:
    if may_be_more and may_be_less:
        return "unknown"
    return "at least" if may_be_more else "at most" if may_be_less else "exact"


def best_of(means: Sequence[float | None], higher_is_better: bool) -> tuple[float, ...]:
    """The expected best of k of the means drawn without replacement, exact, for k = 1 to their number.

    What a budget of k trials buys. For rules to be alike take the rates of the first grid alone. A rate
    that failed (None) counts as the worst of the others; a mean that is inf makes the expectation inf up
    to the k that cannot miss all finite ones. A rule without a rate is a constant.

    Formula: with v₁ ≥ v₂ ≥ … ≥ vₙ, Σᵢ vᵢ C(n − i, k − 1) / C(n, k): vᵢ is drawn, and nothing better is.

    Example:
        >>> best_of([0.9, 0.5, 0.1], higher_is_better=True)
        (0.5, 0.766666666667, 0.9)
    """
    finished = [value for value in means if value is not None]
    if not finished:
        raise GafError("no rate has a score, so there is no best one")
    if any(map(math.isnan, finished)):
        raise GafError("a score that is not a number cannot be ranked")
    finished.sort(reverse=higher_is_better)
    ordered = finished + [finished[-1]] * (len(means) - len(finished))
    n = len(ordered)
    expected = []
    for k in range(1, n + 1):
        terms = (
            value * (math.comb(n - i, k - 1) / math.comb(n, k))
            for i, value in enumerate(ordered, start=1)
            if n - i >= k - 1  # else it is never the best of k
        )
        expected.append(significant(sum(terms)))
    return tuple(expected)
