"""A comparison on a terminal: the answer, the curve over the learning rate, windows, table and cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from gaf.lab.reports.comparison_parts import (
    budget_rows,
    cost_words,
    earlier_words,
    threshold_words,
    window_rows,
)
from gaf.lab.reports.comparison_table import comparison_table
from gaf.lab.reports.rate_curves import LOG_FROM, RateAxis, RuleLine, rate_axis, rule_lines
from gaf.lab.reports.tables import TerminalTable, one_line
from gaf.lab.study.results import Comparison, Row
from gaf.lab.study.words import answer, disagreement

BLOCKS = "▁▂▃▄▅▆▇█"  # the last is within the window
CHOSEN, USUAL, LOST = "◆", "◇", "×"
WIDEST = 60  # of a picture, in columns
LONGEST_NAME = 26


class TerminalComparison:
    """For a rich console, as wide as it."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        comparison, tuning = self.comparison, self.comparison.tuning
        yield Text(one_line(f"{comparison.title}: {comparison.task}"), style="dim")
        yield Text(f"\n{one_line(answer(comparison))}", style="bold")
        if earlier := earlier_words(comparison):
            yield Text(earlier)
        if tuning is not None:
            for line in (
                *rate_lines(comparison, options.max_width),
                *window_lines(comparison),
                *budget_lines(comparison),
            ):
                yield Text(line, no_wrap=True, overflow="ellipsis")
            yield Text("")
        yield TerminalTable(comparison_table(comparison))
        for row in comparison.rows:
            if worth_a_sentence(row, comparison):
                yield Text(one_line(f"  {row.setting}: {row.sentence}"))
        if cost := cost_words(comparison):
            yield Text(f"\nCost: {cost}")


def worth_a_sentence(row: Row, comparison: Comparison) -> bool:
    """Whether a row is not said by the table alone."""
    return bool(disagreement(row, comparison) or row.diverged or row.failed)


def rate_lines(comparison: Comparison, width: int) -> Iterator[str]:
    """The curve over the learning rate: a line of blocks for each rule over one axis of rates."""
    tuning = comparison.tuning
    axis = rate_axis(tuning) if tuning else None
    if tuning is None or axis is None:
        return
    lines, best = rule_lines(tuning), {row.setting: row.best for row in window_rows(comparison)}
    names, blocks = _padded([line.setting for line in lines]), Blocks(comparison, lines)
    tail = max(map(len, best.values()))
    columns = max(10, min(WIDEST, width - len(names[0]) - tail - 6))
    yield f"\nValidation {one_line(comparison.score_name)} over the learning rate, best on the right"
    for name, line in zip(names, lines, strict=True):
        yield f"  {name}  {_picture(line, axis, columns, blocks)}  {best[line.setting]:>{tail}}"
    yield f"  {' ' * len(names[0])}  {_ticks(axis, columns)}"
    if threshold := threshold_words(comparison):
        yield f"  {BLOCKS[-1]} {one_line(threshold)}"
    yield f"  {CHOSEN} chosen rate, {USUAL} usual rate, {LOST} every run diverged or failed"


def _picture(line: RuleLine, axis: RateAxis, columns: int, blocks: Blocks) -> str:
    if not line.curve.has_rate:
        return "no learning rate to tune"[:columns].ljust(columns)
    cells = []
    for column in range(columns):
        value = line.between(axis.rate(column / (columns - 1)))
        cells.append(" " if value is None else blocks.block(value))
    usual, chosen = line.curve.usual, line.curve.chosen
    marks = [(rate, LOST) for rate in line.lost]
    marks += [(usual, USUAL)] if line.mean_at(usual) is not None else []
    marks += [(chosen, CHOSEN)] if chosen is not None and line.mean_at(chosen) is not None else []
    for rate, mark in marks:
        cells[round(axis.place(rate) * (columns - 1))] = mark
    return "".join(cells)


class Blocks:
    """From a score to a block: the highest from the threshold on, the others evenly down to the worst."""

    def __init__(self, comparison: Comparison, lines: Sequence[RuleLine]) -> None:
        assert comparison.tuning is not None
        self.sign = 1 if comparison.higher_is_better else -1
        means = [point.mean for line in lines for point in line.points] or [0.0]
        worst, best = sorted((min(means), max(means)), reverse=self.sign < 0)
        threshold = comparison.tuning.threshold
        top = threshold if threshold is not None and math.isfinite(threshold) else best
        self.is_log = min(*means, top) > 0 and worst > LOG_FROM * top  # a loss
        self.top, self.worst = self._scaled(top), self._scaled(worst)

    def _scaled(self, score: float) -> float:
        return math.log(score) if self.is_log else score

    def block(self, score: float) -> str:
        size = self._scaled(score)
        if self.sign * (size - self.top) >= 0:
            return BLOCKS[-1]
        share = (size - self.worst) / (self.top - self.worst) if self.top != self.worst else 0.0
        level = int(share * (len(BLOCKS) - 1)) if math.isfinite(share) else 0
        return BLOCKS[max(0, min(len(BLOCKS) - 2, level))]


def _ticks(axis: RateAxis, columns: int) -> str:
    """Powers of ten under their places."""
    text = ""
    for rate in axis.decades():
        label = f"{rate:g}"
        start = round(axis.place(rate) * (columns - 1)) - len(label) // 2
        start = max(0, min(start, columns - len(label)))
        if start >= len(text) + bool(text):
            text = text.ljust(start) + label
    return text


def window_lines(comparison: Comparison) -> Iterator[str]:
    """The window of each rule."""
    rows = window_rows(comparison)
    if all(row.bar is None for row in rows):
        return
    baseline = one_line(comparison.baseline)
    if comparison.tuning and comparison.tuning.threshold is None:
        yield f"\nNo windows of learning rates: {baseline} learned nothing at any of its rates"
        return
    yield f"\nWindows of learning rates, against that of {baseline}"
    heads = ("window", "factor", "widened", "shifted")
    yield from _aligned(
        heads,
        [(row.setting, row.rates, row.factor, row.widened, row.shifted) for row in rows],
    )


def budget_lines(comparison: Comparison) -> Iterator[str]:
    """The expected best score of one, three and all rates of the grid."""
    counts, rows = budget_rows(comparison)
    if len(counts) < 2:
        return
    name = one_line(comparison.score_name)
    yield f"\nScore against budget: expected best validation {name} of k rates"
    yield from _aligned([f"k = {count}" for count in counts], rows)


def _aligned(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Columns under their heads, after the names of the rows."""
    names = _padded([row[0] for row in rows])
    widths = [
        max(map(len, column)) for column in zip(heads, *(row[1:] for row in rows), strict=True)
    ]
    for name, texts in (
        (" " * len(names[0]), heads),
        *zip(names, (r[1:] for r in rows), strict=True),
    ):
        cells = (f"  {text:>{width}}" for text, width in zip(texts, widths, strict=True))
        yield f"  {name}{''.join(cells)}"


def _padded(names: Sequence[str]) -> list[str]:
    """Names of one length; a long one is cut."""
    texts = [one_line(name) for name in names]
    cut = [text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…" for text in texts]
    longest = max(map(len, cut))
    return [text.ljust(longest) for text in cut]
