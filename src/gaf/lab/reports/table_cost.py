"""What filling a table would cost, to read: the list of runs, and the sum in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from gaf.lab.engine.progress import clock
from gaf.lab.reports.numbers import NOTHING
from gaf.lab.study.table.cost import Bill, Left

RATE = 1e13  # operations a second: what a GPU is taken to sustain, as none was measured
DAY = 86_400


def listed(left: Sequence[Left]) -> Table:
    """A line for each config that is to run, with its seeds and what one of its runs takes."""
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("run", "to train", "finished", "steps", "operations", "time here"):
        table.add_column(head, justify="left" if head == "run" else "right", overflow="fold")
    for config_left in left:
        cost = config_left.cost
        table.add_row(
            Text(config_left.config.name),
            _seeds(config_left.todo),
            str(len(config_left.done)),
            f"{cost.steps:,}" if cost.steps else NOTHING,
            f"{cost.operations:.2g}" if cost.operations else NOTHING,
            long(cost.seconds) if cost.seconds else NOTHING,
        )
    return table


def _seeds(numbers: Sequence[int]) -> str:
    """Seeds by their numbers; a bare 0 would read as none.

    Example:
        >>> _seeds([0]), _seeds([0, 1, 4]), _seeds([])
        ('seed 0', 'seeds 0, 1, 4', '–')
    """
    word = "seed" if len(numbers) == 1 else "seeds"
    return f"{word} {', '.join(map(str, numbers))}" if numbers else NOTHING


def sentences(bill: Bill) -> list[str]:
    """The sum, and how far it is to be trusted."""
    runs = "1 run" if bill.todo == 1 else f"{bill.todo} runs"
    lines = [f"{runs} to train; {bill.finished} finished before."]
    if not bill.todo:
        return lines
    if bill.seconds is not None:
        basis = "runs that are finished" if bill.measured else "single steps on random images"
        text = f"Time: about {long(bill.seconds)} one after another on this machine"
        if bill.at_once and bill.at_once > 1:
            text += f", {long(bill.seconds / bill.at_once)} with {bill.at_once} at once"
        lines.append(f"{text}; judged by {basis}, without the time to read data.")
    else:
        lines.append("Time: not timed here, for lack of a GPU or of known data.")
    if bill.operations is not None:
        gpu = long(bill.operations / RATE)
        lines.append(
            f"Operations: {bill.operations:.2g}, that is {gpu} of a GPU that sustains {RATE / 1e12:g} "
            "TFLOP/s, which is an assumption."
        )
    return lines


def long(seconds: float) -> str:
    """A time of seconds to years.

    Example:
        >>> long(75), long(4 * DAY), long(1000 * DAY)
        ('0:01:15', '4.0 days', '2.7 years')
    """
    if seconds < 2 * DAY:
        return clock(seconds)
    days = seconds / DAY
    return f"{days:.1f} days" if days < 730 else f"{days / 365.25:.1f} years"
