"""A comparison from Python: what :func:`gaf.lab.compare` returns, which notebooks show by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup
from rich.console import Console

from gaf.lab.engine.config import RunConfig
from gaf.lab.reports import html
from gaf.lab.reports.comparison_parts import cost_words, threshold_words, window_rows
from gaf.lab.reports.comparison_table import comparison_table
from gaf.lab.reports.figures import style as print_style
from gaf.lab.reports.figures.base import drawn
from gaf.lab.reports.page import write_page
from gaf.lab.reports.rate_curves import RateAxis, RuleLine, rate_axis, rule_lines
from gaf.lab.reports.style import IN_PRINT, Style, styles
from gaf.lab.reports.tables import ResultTable, one_line
from gaf.lab.study.compare import compare_here, default_folder
from gaf.lab.study.plan import SEEDS, SETTINGS, Plan, TuningPlan, table_seeds
from gaf.lab.study.recipes import trained
from gaf.lab.study.results import Comparison, Row
from gaf.lab.study.settings import split
from gaf.lab.study.words import answer, seeds_to_plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

TUNING = TuningPlan()
WIDTH, HEIGHT = 7.16, 3.2  # inches of the plot
DASHES = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
}  # plotly's, as matplotlib names them


def compare(
    task: str | RunConfig,
    settings: str | Sequence[str] = SETTINGS,
    *,
    seeds: int = SEEDS,
    tuning: TuningPlan | None = TUNING,
    out: str | Path | None = None,
    workers: int | None = None,
) -> ComparisonView:
    """Does a gradient activation function help? As ``gaf compare``, from Python.

    Runs that are finished in the folder are not repeated.

    Args:
        task: a recipe's name, ``"module:function"`` or a config.
        settings: beside the baseline, as ``gaf compare --settings`` names them.
        seeds: how many for the table.
        tuning: how every rule's learning rate is tuned; None compares at the rates that are given.
        out: the folder; unset, ``runs/compare-NAME``.
        workers: runs at once; unset, as many as the machine holds.
    """
    base = task if isinstance(task, RunConfig) else trained(task)
    names = split([settings] if isinstance(settings, str) else settings)
    plan = Plan(base, tuple(names), table_seeds(base, seeds), tuning)
    folder = Path(out) if out is not None else default_folder(plan)
    comparison = compare_here({folder: plan}, Console(stderr=True), workers)[folder]
    write_page(comparison, folder)
    return ComparisonView(comparison, folder)


class ComparisonView:
    """A comparison to look at.

    Args:
        comparison: the record: ``view.comparison.rows`` has every number.
        folder: of the comparison, with its page ``report.html``.
    """

    def __init__(self, comparison: Comparison, folder: Path) -> None:
        self.comparison, self.folder = comparison, folder

    @property
    def answer(self) -> str:
        """Does it help? In a sentence or two."""
        return answer(self.comparison)

    @property
    def page(self) -> Path:
        """The page of the comparison."""
        return self.folder / html.PAGE

    def table(self) -> ResultTable[Row]:
        """The table of the final scores: prints as text, and shows in a notebook."""
        return comparison_table(self.comparison)

    def seeds_to_plan(self, difference: float) -> int | None:
        """How many seeds find a true difference of this size, in units of the score, in four of five studies.

        None where no two seeds have ended. Take the size that matters, not the one just seen.
        """
        return seeds_to_plan(self.comparison, difference)

    def plot(self) -> Drawing | None:
        """The curve over the learning rate, by matplotlib; None where no rates were tuned."""
        axis = rate_axis(self.comparison.tuning) if self.comparison.tuning else None
        if axis is None:
            return None
        import matplotlib

        with matplotlib.rc_context(print_style.RC):
            return _plot(self.comparison, axis)

    def __repr__(self) -> str:
        return f"{self.answer}\n\n{self.table()}"

    def _repr_html_(self) -> str:
        template = html.templates().get_template("notebook.html.jinja")
        comparison = self.comparison
        axis = rate_axis(comparison.tuning) if comparison.tuning else None
        element = template.module.comparison(  # type: ignore[attr-defined]
            answer=self.answer,
            plot=Markup(_svg(comparison, axis)) if axis else "",
            table=self.table(),
            windows=window_rows(comparison),
            threshold=threshold_words(comparison),
            cost=cost_words(comparison),
            page=str(self.page),
        )
        return str(element)


def _svg(comparison: Comparison, axis: RateAxis) -> str:
    """The plot as an element of a page: its text is escaped by matplotlib."""
    text = drawn(lambda: _plot(comparison, axis), "svg").decode()
    return text[text.index("<svg") :]


def _plot(comparison: Comparison, axis: RateAxis) -> Drawing:
    tuning = comparison.tuning
    assert tuning is not None
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure = print_style.new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    looks = styles(comparison)
    for line in rule_lines(tuning):
        if line.setting in looks:
            _draw(axes, line, axis, looks[line.setting])
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(axis.decades()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:g}"))
    if tuning.threshold is not None and math.isfinite(tuning.threshold):
        axes.axhline(tuning.threshold, color="0.6", linewidth=0.6)
    axes.set_xlabel("learning rate")
    axes.set_ylabel(_plain(f"validation {comparison.score_name}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.set_layout_engine("tight")
    return figure


def _draw(axes: Axes, line: RuleLine, axis: RateAxis, look: Style) -> None:
    colour, name = IN_PRINT[look.colour], _plain(line.setting)
    style = {"color": colour, "linestyle": DASHES[look.dash], "linewidth": look.width / 1.6}
    if not line.points:
        axes.plot([], [], label=f"{name} (failed)", **style)
    elif not line.curve.has_rate:
        (point,) = line.points
        axes.hlines(point.mean, axis.low, axis.high, label=name, **style)
    else:
        rates = [point.rate for point in line.points]
        axes.plot(rates, [point.mean for point in line.points], label=name, **style)
        lows, highs = ([getattr(p, key) for p in line.points] for key in ("low", "high"))
        axes.fill_between(rates, lows, highs, color=colour, alpha=0.12, linewidth=0)
        for rate, filled in ((line.curve.usual, False), (line.curve.chosen, True)):
            mean = None if rate is None else line.mean_at(rate)
            if rate is not None and mean is not None:
                face = colour if filled else "none"
                axes.plot(
                    [rate], [mean], "o", color=colour, mfc=face, ms=4.5 if filled else 8, mew=1
                )


def _plain(text: str) -> str:
    """Text that matplotlib does not read as a formula."""
    return one_line(text).replace("$", r"\$")
