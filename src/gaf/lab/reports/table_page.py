"""One HTML file for a table of the paper, beside the texts: everything in it, no request to anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gaf.common.files import write_whole
from gaf.lab.reports import html, tables
from gaf.lab.reports.html import PAGE
from gaf.lab.reports.paper_table import main_and_note, number, paper_table, word
from gaf.lab.study.results import Filled, Scores

TEXTS = {"table.md": tables.markdown, "table.csv": tables.as_csv, "table.tex": tables.latex}


def write_all(table: Filled, folder: Path) -> list[Path]:
    """The page and the texts, each whole or not at all; returns where they are."""
    texts = {name: make(paper_table(table)) for name, make in TEXTS.items()}
    contents = {PAGE: render(table), **texts}
    for name, content in contents.items():
        write_whole(folder / name, content.encode("utf-8", "replace"))
    return [folder / name for name in contents]


def render(table: Filled) -> str:
    """The page as text."""
    runs = list(_runs(table))
    return html.render(
        "table.html.jinja",
        {},
        filled=table,
        table=paper_table(table),
        headline=headline(table),
        grid=_grid(table),
        main_and_note=main_and_note,
        word=word,
        failures=[
            (f"{scores.recipe}, seed {seed}", error)
            for scores in runs
            for seed, error in scores.failed.items()
        ],
        # the figures beside the score that have no column: the average precision of each class
        classes=[
            (line.model, line.setting, name, number(beside.paper), number(beside.ours))
            for line in table.lines
            for name, beside in line.beside.items()
            if name.startswith("AP/")
        ],
        runs=[
            (scores.recipe, str(seed), number(value), scores.folders.get(seed, "not run"))
            for scores in runs
            for seed, value in zip(table.seeds, scores.values, strict=True)
        ],
    )


def headline(table: Filled) -> str:
    """What came out, in one sentence."""
    compared = [line for line in table.lines if line.gain is not None]
    n = len(table.seeds)
    if not compared:
        return "There is nothing to compare yet."
    lines = [line for line in compared if line.learned]
    lost = len(compared) - len(lines)
    if lost:
        none = (
            f"Nothing learned here in {lost} of {len(compared)} settings: neither they nor the training "
            "without f score more than twice chance or 1 %, so their differences mean nothing."
        )
        if not lines:
            return none
        return f"{headline(table.model_copy(update={'lines': tuple(lines)}))} {none}"
    over = f"Of {len(lines)} settings with f or clipping"
    if n == 1:
        above = sum(line.gain.mean > 0 for line in lines if line.gain)
        return (
            f"{over}, {above} scored above the training without f. One run of each cannot show a difference: "
            "use more --seeds."
        )
    verdicts = [line.gain.verdict for line in lines if line.gain]
    counted = ("better", "worse", "no difference")
    parts = [f"{verdicts.count(verdict)} {verdict}" for verdict in counted]
    with_f = [line.beyond.verdict for line in lines if line.beyond]
    beyond = (
        f" Against its matched control f was better in {with_f.count('better')} of {len(with_f)}."
    )
    return f"{over}, over {n} seeds: {', '.join(parts)}.{beyond if with_f else ''}"


def _grid(table: Filled) -> dict[str, Any]:
    """Models down, settings across; None where the paper has no number."""
    settings = list(dict.fromkeys(line.setting for line in table.lines))
    cells = {(line.data, line.model, line.setting): line for line in table.lines}
    models = dict.fromkeys((line.data, line.model) for line in table.lines)
    several = len({data for data, _ in models}) > 1
    rows = {
        f"{model}, {data}" if several else model: [
            cells.get((data, model, setting)) for setting in settings
        ]
        for data, model in models
    }
    return {"settings": settings, "rows": rows}


def _runs(table: Filled) -> Iterator[Scores]:
    """The runs of each config, once."""
    known = set()
    for line in table.lines:
        for scores in (line.ours, line.control):
            if scores and (key := (scores.recipe, *scores.folders.values())) not in known:
                known.add(key)
                yield scores
