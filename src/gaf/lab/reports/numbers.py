"""How figures are written, in every table alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from gaf.lab.study.results import Comparison, Difference

NOTHING = "–"  # where there is no figure


def decimals(values: Iterable[float | None]) -> int:
    """Places after the point that give the largest value four digits.

    Example:
        >>> decimals([0.971, 0.1]), decimals([45.31]), decimals([]), decimals([1.0])
        (4, 2, 4, 3)
    """
    finite = [abs(value) for value in values if value is not None and math.isfinite(value)]
    largest = max(finite, default=0.0)
    return min(8, max(0, 3 - math.floor(math.log10(largest)))) if largest else 4


def places(comparison: Comparison) -> int:
    """Of the scores of a comparison; a share such as top1 has four."""
    scores = [score for row in comparison.rows for score in row.scores]
    return max(4, decimals(scores)) if all(0 <= (s or 0) <= 1 for s in scores) else decimals(scores)


def fixed(value: float | None, digits: int, sign: bool = False) -> str:
    """A figure with so many places.

    Example:
        >>> fixed(-0.01239, 4, sign=True), fixed(float("inf"), 2), fixed(None, 2), fixed(-0.00001, 2)
        ('−0.0124', '∞', '–', '0.00')
    """
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    if not float(text):
        text = text.lstrip("+-")  # a zero has no sign
    return text.replace("-", "−")


def score(mean: float | None, std: float | None, digits: int) -> str:
    """A mean, and its standard deviation where there is one.

    Example:
        >>> score(0.5, 0.1, 2), score(0.5, None, 2), score(None, None, 2)
        ('0.50 ± 0.10', '0.50', '–')
    """
    if mean is None:
        return NOTHING
    return fixed(mean, digits) + ("" if std is None else f" ± {fixed(std, digits)}")


def counted(counts: Mapping[str, int], n: int) -> str:
    """What became of some of n runs; '' where nothing did.

    Example:
        >>> counted({"diverged": 2, "failed": 0, "not run": 1}, 3)
        '2 of 3 diverged, 1 of 3 not run'
    """
    return ", ".join(f"{count} of {n} {fate}" for fate, count in counts.items() if count)


def rounded(value: float, digits: int) -> float:
    """A number with so many significant digits: a plot shows no more, and a page is shorter for it.

    Example:
        >>> rounded(0.123456, 4), rounded(123456.0, 2)
        (0.1235, 120000.0)
    """
    return float(f"{value:.{digits}g}")


def interval(difference: Difference | None, digits: int) -> str:
    """The ends of the interval of a difference; '' where there is one seed or an infinite score."""
    if difference is None or not math.isfinite(difference.high - difference.low):
        return ""
    low, high = (fixed(end, digits, sign=True) for end in (difference.low, difference.high))
    return f"[{low}, {high}]"


def p_value(p: float | None) -> str:
    """A p-value to three places.

    Example:
        >>> p_value(0.0312), p_value(0.00001), p_value(1.0), p_value(None)
        ('0.031', '< 0.001', '1.000', '–')
    """
    if p is None or math.isnan(p):
        return NOTHING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def duration(seconds: float | None) -> str:
    """A short time in a unit that suits it.

    Example:
        >>> duration(0.0123), duration(1.5), duration(0.000084)
        ('12.3 ms', '1.50 s', '84.0 µs')
    """
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    unit, name = next((u for u in ((1.0, "s"), (1e-3, "ms")) if seconds >= u[0]), (1e-6, "µs"))
    return f"{seconds / unit:#.3g}".rstrip(".") + f" {name}"


def long_duration(seconds: float) -> str:
    """A time of minutes or hours.

    Example:
        >>> long_duration(42.4), long_duration(312.0), long_duration(86400.0), long_duration(math.inf)
        ('42 s', '5.2 min', '24 h', '–')
    """
    if not math.isfinite(seconds):
        return NOTHING
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.2g} min" if seconds < 5400 else f"{seconds / 3600:,.3g} h"
