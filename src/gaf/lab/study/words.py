"""What a comparison says, in words: the answer, a sentence for each row, windows of learning rates.

All of it is made from the record here, for the terminal, the page and notebooks alike. Nothing reads it back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gaf.lab.study.protocol import seeds_for
from gaf.lab.study.results import Comparison, Difference, Row
from gaf.lab.study.statistics import LEVEL

NOTHING_LEARNED = "nothing learned here"
WIDER = 1.5  # times the baseline's window, from which on it is worth a sentence


def answer(comparison: Comparison) -> str:
    """Does it help? In a sentence or two."""
    baseline, *others = comparison.rows
    activated = [row for row in others if row.activated and row.kind != "control"]
    if not others:
        return f"{baseline.setting} alone: there is nothing to compare with."
    if all(row.at_chance for row in comparison.rows):
        return f"Nothing learned: no run has a better {comparison.score_name} than a guess."
    asked = activated or [row for row in others if row.kind != "control"] or others
    better = sorted((row for row in asked if row.verdict == "better"), key=_size)
    parts = [_yes(better, comparison)] if better else [_no(asked, comparison)]
    rivals = [
        row
        for row in others
        if row not in asked and row.kind != "control" and row.verdict == "better"
    ]
    if rivals:
        named = " and ".join(f"{row.setting} (by {_by(row, comparison)})" for row in rivals[:3])
        parts.append(
            f"Without a gradient activation, {named} {_is(rivals)} better{' too' if better else ''}."
        )
    if widest := _widest(asked, comparison):
        parts.append(widest)
    if comparison.score_on == "validation":
        parts.append("Judged on validation data, not on test data.")
    return " ".join(parts)


def _yes(better: Sequence[Row], comparison: Comparison) -> str:
    first, *rest = better
    text = f"Yes: {first.setting} is better than {whom(comparison)} by {_by(first, comparison)}."
    if rest:
        named = ", ".join(row.setting for row in rest)
        text += f" So {_is(rest)} {named}."
    if first.vs_control and first.vs_control.verdict != "better":
        if first.vs_control.verdict == "worse":
            text += f" Its control, {first.control}, is better still."
        else:
            text += (
                f" No difference to its control, {first.control}, was found: that alone may explain "
                "the gain."
            )
    if comparison.rows[0].at_chance and comparison.tuning:
        text += f" {comparison.baseline} learned nothing at any rate."
    return text


def _no(asked: Sequence[Row], comparison: Comparison) -> str:
    judged = [row for row in asked if row.vs_baseline is not None]
    if not judged:
        return f"No answer: no run can be compared with {whom(comparison)}."
    n = max(row.vs_baseline.n for row in judged if row.vs_baseline)
    if n < 2:
        return "No answer: one seed is not enough."
    if all(row.verdict == "worse" for row in judged):
        least = min(judged, key=lambda row: -_size(row))
        by = _by(least, comparison)
        return f"No: {least.setting} is worse than {whom(comparison)} by {by}" + (
            ", and so are the others." if len(judged) > 1 else "."
        )
    best = min(
        (row for row in judged if row.verdict != "worse"),
        key=lambda row: (
            -(row.vs_baseline.mean if row.vs_baseline else 0)
            * (1 if comparison.higher_is_better else -1)
        ),
    )
    worse = [row.setting for row in judged if row.verdict == "worse"]
    if best.vs_baseline and not math.isfinite(best.vs_baseline.mean):
        return (
            f"No difference: over {n} seeds runs of {best.setting} or {whom(comparison)} diverged, so that "
            "only the signs of the differences can be tested, which takes more seeds."
        )
    text = (
        f"No difference: {best.setting} and {whom(comparison)} differ by {_by(best, comparison)} "
        f"over {n} seeds"
    )
    reason = disagreement(best, comparison)
    text += f"; {reason}." if reason else "."
    return text + (f" Worse: {', '.join(worse)}." if worse else "")


def _widest(asked: Sequence[Row], comparison: Comparison) -> str:
    curves = comparison.tuning.curves if comparison.tuning else {}
    windows = {
        row.setting: window
        for row in asked
        if (curve := curves.get(row.setting)) and (window := curve.window)
    }
    wider = {
        name: (window.widened, window.widened_is)
        for name, window in windows.items()
        if window.widened and window.widened >= WIDER and window.widened_is in ("exact", "at least")
    }
    if not wider:
        return ""
    name, (factor, bound) = max(wider.items(), key=lambda item: item[1][0])
    return (
        f"The window of learning rates at which {name} is good enough is {_bounded(factor, bound)} times "
        f"as wide as that of {comparison.baseline}."
    )


def _size(row: Row) -> float:
    """The largest difference first."""
    return -abs(row.vs_baseline.mean) if row.vs_baseline else 0.0


def _is(rows: Sequence[Row]) -> str:
    return "is" if len(rows) == 1 else "are"


def _by(row: Row, comparison: Comparison) -> str:
    """How large a difference is, with its interval."""
    difference = row.vs_baseline
    assert difference is not None
    signed = difference.verdict == "no difference"
    unit = 100 if comparison.is_share else 1
    values = [unit * value for value in (difference.mean, difference.low, difference.high)]
    if not signed and values[0] < 0:
        values = [-values[0], -values[2], -values[1]]
    middle, low, high = (_figure(value, unit == 100, signed) for value in values)
    name = " points" if unit == 100 else f" in {comparison.score_name}"
    if not (math.isfinite(difference.low) and math.isfinite(difference.high)):
        return f"{middle}{name}"
    return f"{middle}{name} [{low}, {high}]"


def _figure(value: float, points: bool, signed: bool) -> str:
    return _with_sign(value, f"{'+' if signed else ''}{'.1f' if points else '.3g'}")


def _with_sign(value: float, spec: str) -> str:
    """A formatted figure with the minus sign of the tables.

    Example:
        >>> _with_sign(-0.0134, "+.3g"), _with_sign(2e-7, "+.3g"), _with_sign(0.0, "+.1f")
        ('−0.0134', '+2e-07', '0.0')
    """
    text = f"{abs(value):{spec.lstrip('+')}}"
    if not float(text):
        return text  # a zero has no sign
    return f"−{text}" if value < 0 else f"+{text}" if spec.startswith("+") else text


def whom(comparison: Comparison) -> str:
    """What the others are compared with, as a sentence names it."""
    if comparison.tuning:
        return f"tuned {comparison.baseline}"
    return "the baseline" if comparison.baseline == "baseline" else comparison.baseline


def _bounded(value: float, bound: str) -> str:
    return f"{value:.2g}" if bound == "exact" else f"{bound} {value:.2g}"


def seeds_to_plan(comparison: Comparison, difference: float) -> int | None:
    """How many seeds find a difference of this size in four of five studies; None without a spread.

    The spread is that of the differences so far, the size is the asker's: one that was just seen is too large
    by chance.
    """
    compared_rows = [row for row in comparison.rows if row.vs_baseline]
    asked = [row for row in compared_rows if row.activated] or compared_rows
    spreads = [_spread(row.vs_baseline) for row in asked if row.vs_baseline]
    finite = sorted(spread for spread in spreads if spread is not None)
    compared = sum(
        (row.vs_baseline is not None) + (row.vs_control is not None) for row in comparison.rows
    )
    if not finite:
        return None
    tuning_seeds = len(comparison.tuning.seeds) if comparison.tuning else None
    spread, level = finite[len(finite) // 2], LEVEL / max(1, compared)
    return seeds_for(difference, spread, level, tuning_seeds=tuning_seeds)


def _spread(difference: Difference) -> float | None:
    """The standard deviation of the paired differences, from their interval."""
    n, width = difference.n, difference.high - difference.low
    if n < 2 or not math.isfinite(width):
        return None
    from scipy import special

    return width / 2 * math.sqrt(n) / float(special.stdtrit(n - 1, 1 - LEVEL / 2))


def sentences(comparison: Comparison) -> tuple[Row, ...]:
    """The rows of a table, the baseline first, each with its sentence."""
    return tuple(
        row.model_copy(update={"sentence": _sentence(row, comparison)}) for row in comparison.rows
    )


def _sentence(row: Row, comparison: Comparison) -> str:
    baseline = comparison.rows[0]
    parts = _against_baseline(row, comparison)
    if row.vs_control and row.control != baseline.setting and row.verdict != "nothing learned":
        matched = row.kind == "function"
        parts.append(
            against(row.vs_control, "its matched control" if matched else str(row.control))
        )
        gained = row.vs_baseline is not None and row.vs_baseline.verdict == "better"
        if gained and row.vs_control.verdict != "better":
            alone = "the slope of f" if row.kind == "function" else "the scale of each tensor"
            parts.append(f"{alone} alone may explain the gain")
    if comparison.tuning and row.rate is not None and row.second_rate is not None:
        parts.append(
            f"at lr {row.rate:.3g}, the next best {row.second_rate:.3g}{_edge(row, comparison)}"
        )
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


def _against_baseline(row: Row, comparison: Comparison) -> list[str]:
    baseline = comparison.rows[0]
    if row is baseline:
        parts = ["what the others are compared with"]
        if row.at_chance:
            parts.append(f"{NOTHING_LEARNED}: no run scored better than chance")
        return parts
    if row.verdict == "nothing learned":
        return [f"{NOTHING_LEARNED}: like the baseline, no run scored better than chance"]
    if row.vs_baseline is None:
        return ["no run to compare with the baseline"]
    if baseline.at_chance:
        name = f"{whom(comparison)}, which learned nothing"
        return [against(row.vs_baseline, name, comma=",")]
    parts = [against(row.vs_baseline, whom(comparison))]
    if reason := disagreement(row, comparison):
        parts.append(reason)
    return parts


def disagreement(row: Row, comparison: Comparison) -> str:
    """Why a difference whose interval excludes 0 is none; '' where verdict and interval agree."""
    difference = row.vs_baseline
    if difference is None or difference.verdict != "no difference" or difference.n < 2:
        return ""
    if difference.low <= 0 <= difference.high:
        return ""
    if difference.p >= LEVEL > (difference.p_alone if difference.p_alone is not None else 1):
        ahead = (difference.mean > 0) == comparison.higher_is_better
        name = comparison.baseline if ahead else row.setting
        return (
            f"the interval excludes 0, but not at both of the best rates of {name} after an allowance for "
            "tuning on few seeds"
        )
    if difference.p_corrected >= LEVEL > difference.p:
        return (
            "the interval excludes 0, but not after the correction for all comparisons of the table"
        )
    return "the interval excludes 0, but too few seeds differ"


def against(difference: Difference, name: str, comma: str = "") -> str:
    """A difference in words; ``comma`` stands after ``name`` where the sentence goes on.

    Example:
        >>> values = dict(against="baseline", p=0.3, p_corrected=0.6, n=5)
        >>> values |= dict(mean=0.004, low=-0.002, high=0.01, verdict="no difference")
        >>> against(Difference(**values), "the baseline")
        'no difference to the baseline at 5 seeds (+0.004, −0.002 to +0.01)'
    """
    if difference.n > 1 and difference.low == difference.high == 0:
        return f"the same scores as {name} on all {difference.n} seeds"
    mean, low, high = (
        _with_sign(value, "+.3g") for value in (difference.mean, difference.low, difference.high)
    )
    numbers = mean
    if math.isfinite(difference.low) and math.isfinite(difference.high):
        numbers += f", {low} to {high}"
    if difference.verdict != "no difference":
        p = "< 0.001" if difference.p_corrected < 0.001 else f"{difference.p_corrected:.2g}"
        return f"{difference.verdict} than {name} ({numbers}, p {p}, {difference.n} seeds)"
    seeds = f"at {difference.n} seeds" if difference.n > 1 else "at one seed, which is not enough"
    return f"no difference to {name}{comma} {seeds} ({numbers})"


def _edge(row: Row, comparison: Comparison) -> str:
    curve = comparison.tuning.curves.get(row.setting) if comparison.tuning else None
    chosen = [trial.rate for trial in curve.trials if trial.part != "refined"] if curve else []
    return ", at the edge of what was tried" if row.rate in (*chosen[:1], *chosen[-1:]) else ""
