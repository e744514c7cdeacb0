"""What a row of a comparison says in words; everything follows from the row and the baseline's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gaf.lab.study.comparison import Difference, Row, Tuning
from gaf.lab.study.settings import TUNED

NOTHING_LEARNED = "nothing learned here"


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
    whom = "the baseline, which learned nothing," if baseline.at_chance else "the baseline"
    return [against(row.vs_baseline, whom)]


def against(found: Difference, whom: str) -> str:
    """A difference in words.

    Example:
        >>> values = dict(against="baseline", p=0.3, p_corrected=0.6, n=5)
        >>> values |= dict(mean=0.004, low=-0.002, high=0.01, verdict="no difference")
        >>> against(Difference(**values), "the baseline")
        'no difference to the baseline at 5 seeds (+0.004, -0.002 to +0.01)'
    """
    if found.n > 1 and found.low == found.high == 0:
        return f"the very scores of {whom.rstrip(',')} on all {found.n} seeds"
    numbers = f"{found.mean:+.3g}"
    if math.isfinite(found.low) and math.isfinite(found.high):
        numbers += f", {found.low:+.3g} to {found.high:+.3g}"
    if found.verdict != "no difference":
        return (
            f"{found.verdict} than {whom.rstrip(',')} "
            f"({numbers}, p {_p(found.p_corrected)}, {found.n} seeds)"
        )
    at = f"at {found.n} seeds" if found.n > 1 else "at one seed, which tells nothing"
    return f"no difference to {whom} {at} ({numbers})"


def _edge(tuning: Tuning) -> str:
    edges = (next(iter(tuning.tried)), next(reversed(tuning.tried)))
    return ", at the edge of what was tried" if tuning.chosen in edges else ""


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"
