"""The map of an atlas: problems by rules, for a page and for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from gaf.lab.reports import html, numbers
from gaf.lab.reports.html import PAGE
from gaf.lab.study.atlas.atlas import Atlas, AtlasCell, AtlasStudy
from gaf.lab.study.protocol import is_share

MARK = {"better": "▲", "worse": "▼", "no difference": "=", "nothing learned": "○", "failed": "✕"}
COLOUR = {"better": "green", "worse": "red"}


def write_atlas(atlas: Atlas, folder: Path) -> Path:
    """Write the page into the folder of the studies, whole or not at all."""
    return html.write(render(atlas, folder), folder / PAGE)


@dataclass(frozen=True)
class ShownCell:
    """A cell as it is shown; ``page`` is that of its study, '' where it was not made here."""

    rule: str
    cell: AtlasCell | None
    mark: str
    text: str
    interval: str
    best: str
    window: str
    budget: str
    page: str
    expected: str
    outcome: str


@dataclass(frozen=True)
class ShownStudy:
    """A problem with its cells in the order of the rules."""

    study: AtlasStudy
    cells: list[ShownCell]
    page: str
    counts: str


def render(atlas: Atlas, folder: Path) -> str:
    """The page as text."""
    rules = [rule for rule in atlas.rules if not _is_baseline(atlas, rule)]
    studies = []
    for study in atlas.studies:
        page = f"{study.name}/{PAGE}" if (folder / study.name / PAGE).is_file() else ""
        cells = [_shown(study, rule, page) for rule in rules]
        studies.append(ShownStudy(study, cells, page, _counts(study)))
    environment = atlas.studies[-1].environment if atlas.studies else {}
    return html.render(
        "atlas.html.jinja",
        {},
        atlas=atlas,
        rules=rules,
        with_f={cell.rule for cell in atlas.judged if cell.activated},
        tallies=[_tally(atlas, rule) for rule in rules],
        studies=studies,
        sentences=list(atlas_words(atlas)),
        missing=[name for name in atlas.planned if name not in {s.name for s in atlas.studies}],
        costs=list(_costs(atlas)),
        environment=environment,
        marks=MARK,
        baseline=tuned_baseline(atlas),
    )


def _is_baseline(atlas: Atlas, rule: str) -> bool:
    return all(study.baseline == rule for study in atlas.studies if study.cell(rule))


def _shown(study: AtlasStudy, rule: str, page: str) -> ShownCell:
    cell = study.cell(rule)
    if cell is None:
        return ShownCell(rule, None, "", "", "", "", "", "", page, "", "")
    difference = cell.vs_baseline
    text = interval = ""
    if difference is not None:
        text = _signed(difference.mean, study)
        interval = f"{_signed(difference.low, study)} to {_signed(difference.high, study)}"
    gap = cell.vs_best
    best = "the best by validation" if cell.rule == study.best else ""
    if gap is not None:
        ends = f"{_signed(gap.low, study)} to {_signed(gap.high, study)}"
        best = f"{_signed(gap.mean, study)} ({ends})"
    expected = cell.predicted.sign if cell.predicted else ""
    outcome = "" if cell.hit is None else "as predicted" if cell.hit else f"predicted: {expected}"
    return ShownCell(
        rule=rule,
        cell=cell,
        mark=cell.verdict,
        text=text,
        interval=interval,
        best=best,
        window=_window(cell),
        budget=_budget(cell),
        page=page,
        expected=expected,
        outcome=outcome,
    )


def _signed(value: float, study: AtlasStudy) -> str:
    """A difference in points of a share, else in units of the score."""
    if not math.isfinite(value):
        return "−∞" if value < 0 else "∞"
    share = is_share((cell.mean for cell in study.cells), study.higher_is_better)
    scaled = 100 * value if share else value
    return f"{scaled:+.2g}".replace("-", "−") if abs(scaled) < 100 else f"{scaled:+.0f}"


def _window(cell: AtlasCell) -> str:
    if cell.window is None:
        return numbers.NOTHING
    is_open = cell.window.open_low or cell.window.open_high
    return f"{'≥ ' if is_open else ''}x {cell.window.factor:.3g}"


def _budget(cell: AtlasCell) -> str:
    """The expected score of the best of 1, 3 and all rates."""
    several = cell.best_of
    picked = dict.fromkeys(k for k in (1, 3, len(several)) if 0 < k <= len(several))
    return ", ".join(f"{several[k - 1]:.3g}" for k in picked) or numbers.NOTHING


def _counts(study: AtlasStudy) -> str:
    judged = [cell for cell in study.cells if cell.vs_baseline]
    better = sum(cell.verdict == "better" for cell in judged)
    worse = sum(cell.verdict == "worse" for cell in judged)
    return f"{better} of {len(judged)} better, {worse} worse"


def _costs(atlas: Atlas) -> Iterator[tuple[str, ...]]:
    for study in atlas.studies:
        if cost := study.cost:
            hours = f"{cost.seconds / 3600:.2f}"
            counts = (cost.trials, cost.finals, cost.steps)
            yield study.name, *(f"{count:,}" for count in counts), hours


def _tally(atlas: Atlas, rule: str) -> str:
    """On how many problems a rule is better and worse."""
    cells = [cell for study in atlas.studies if (cell := study.cell(rule)) and cell.vs_baseline]
    better = sum(cell.verdict == "better" for cell in cells)
    worse = sum(cell.verdict == "worse" for cell in cells)
    return f"▲ {better}  ▼ {worse}  of {len(cells)}"


def atlas_words(atlas: Atlas) -> Iterator[str]:
    """What the map says: where f helps, what chance would do, what was predicted."""
    baseline = tuned_baseline(atlas)
    with_f = [cell for cell in atlas.judged if cell.activated]
    better = [study for study in atlas.studies if _helped(study)]
    yield (
        f"Of {len(with_f)} cells with a gradient activation, "
        f"{sum(cell.verdict == 'better' for cell in with_f)} are better than {baseline}, "
        f"{sum(cell.verdict == 'worse' for cell in with_f)} worse; "
        + (
            f"it helps on {', '.join(study.name for study in better)}."
            if better
            else "it helps on none of the problems."
        )
    )
    best = [study for study in atlas.studies if (c := study.cell(study.best)) and c.activated]
    yield (
        "The best tuned rule has a gradient activation on "
        + (", ".join(study.name for study in best) if best else "none of the problems")
        + "."
    )
    corrected, alone = atlas.by_chance
    yield (
        f"If no rule differed from {baseline} anywhere, some {corrected:.2g} cells would be called better by "
        f"chance: verdicts are corrected for all comparisons of a problem. Without that it would be "
        f"{alone:.2g} of {len(atlas.judged)}."
    )
    hits, misses = atlas.hits
    if hits + misses:
        yield (
            f"Predicted on {atlas.predicted}, before the runs: {hits} of {hits + misses} cells came out as "
            f"expected, {misses} did not."
        )


def tuned_baseline(atlas: Atlas) -> str:
    """What rules are compared with, by the names of the baselines."""
    return f"tuned {' or '.join(dict.fromkeys(study.baseline for study in atlas.studies))}"


def _helped(study: AtlasStudy) -> bool:
    return any(cell.activated and cell.verdict == "better" for cell in study.cells)


def terminal_map(atlas: Atlas) -> Table:
    """The map as a table of marks: rules down, problems across."""
    against = tuned_baseline(atlas)
    table = Table(caption=f"▲ better than {against}, ▼ worse, = no difference, ○ nothing learned")
    table.add_column("rule")
    for study in atlas.studies:
        table.add_column(study.name, justify="center")
    for rule in atlas.rules:
        if _is_baseline(atlas, rule):
            continue
        marks = []
        for study in atlas.studies:
            cell = study.cell(rule)
            text = "" if cell is None else f"{MARK.get(cell.verdict, '')} {_mean(cell, study)}"
            marks.append(Text(text.strip(), style=COLOUR.get(cell.verdict, "") if cell else ""))
        table.add_row(Text(rule), *marks)
    return table


def _mean(cell: AtlasCell, study: AtlasStudy) -> str:
    return _signed(cell.vs_baseline.mean, study) if cell.vs_baseline else ""
