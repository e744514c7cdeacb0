"""The page of a comparison: one HTML file, readable on a phone and on paper."""

from __future__ import annotations

from pathlib import Path

import gaf
from gaf.common.files import write_whole
from gaf.lab.reports import numbers, sections
from gaf.lab.reports.curves import CurvePlot, learning_curves, share_curves
from gaf.lab.reports.history import RunHistory, histories
from gaf.lab.reports.html import Html, tag
from gaf.lab.reports.plain_page import document, plots
from gaf.lab.reports.shape import shapes
from gaf.lab.reports.style import styles
from gaf.lab.study.results import Comparison

PAGE = "report.html"


def write_page(comparison: Comparison, folder: Path) -> Path:
    """Write the page of a comparison into its folder, whole or not at all.

    Args:
        comparison: what was found; the curves are read from the run folders it names.
        folder: the comparison's own, where its run folders are found.

    Raises:
        GafError: the records of a run are damaged; the message is one sentence.
    """
    content = render(comparison, histories(comparison, folder))
    path = folder / PAGE
    write_whole(path, content.encode("utf-8", "replace"))  # a name may hold half a character
    return path


def render(comparison: Comparison, runs: dict[str, list[RunHistory]]) -> str:
    """The page as text."""
    figures: dict[str, CurvePlot] = {}
    parts = _parts(comparison, runs, figures)
    return document(comparison.title, parts, figures)


def _parts(
    comparison: Comparison, runs: dict[str, list[RunHistory]], figures: dict[str, CurvePlot]
) -> list[Html]:
    look = styles(comparison)
    curves = learning_curves(comparison, runs, look)
    shares = share_curves(runs, look)
    forms = shapes(runs, look)
    n = len(comparison.seeds)
    parts: list[Html] = [
        tag("h1", comparison.title),
        tag("p", comparison.task, class_="soft"),
        sections.warning(comparison),
        sections.headline(comparison),
        sections.verdicts(comparison),
        sections.failures(comparison),
        tag("h2", "Results"),
        sections.results(comparison),
        _tuning(comparison),
    ]
    lost = _lost(comparison, runs)
    if curves or lost:
        about = (
            f"Lines are means over {n} seeds, bands reach from the lowest seed to the highest."
            if n > 1
            else "One run of each setting."
        )
        parts += [
            tag("h2", "Learning curves"),
            tag("p", about if curves else "", lost, class_="about"),
            sections.legend(look) if curves else Html(""),
            plots(curves, figures),
        ]
    if shares:
        parts += [
            tag("h2", "What f did to the gradients"),
            tag(
                "p",
                "Shares of the elements that are not 0, for the settings with an f.",
                class_="about",
            ),
            plots(shares, figures, "small plots"),
        ]
    if forms:
        parts += [
            tag("h2", "f over the sizes of what it saw"),
            sections.swatch(),
            plots(forms, figures, "plots"),
        ]
    parts += [
        tag(
            "noscript",
            tag("p", "The figures need JavaScript; everything else does not.", class_="note"),
        ),
        tag("h2", "How to make it again"),
        sections.commands(comparison),
        tag("details", tag("summary", "What each setting changes"), sections.settings(comparison)),
        tag(
            "details",
            tag("summary", "All runs"),
            sections.runs(comparison, numbers.places(comparison)),
        ),
        tag("h2", "Environment"),
        sections.environment(comparison),
        tag(
            "footer",
            f"Compared {comparison.created}; page by activated-gradients {gaf.__version__}. "
            "Rebuild it with gaf report and this folder.",
            class_="about",
        ),
    ]
    return parts


def _lost(comparison: Comparison, runs: dict[str, list[RunHistory]]) -> str:
    """What the curves lack."""
    there = sum(map(len, runs.values()))
    lost = sum(run.status != "failed" for run in comparison.runs) - there
    said = ""
    if lost > 0:
        said += f" The records of {lost} of {len(comparison.runs)} runs were not found."
    if any(run.diverged is not None for several in runs.values() for run in several):
        said += " A run that diverged ends early, and is not in the mean from there on."
    return said


def _tuning(comparison: Comparison) -> Html:
    tuning = comparison.tuning
    if tuning is None:
        return Html("")
    digits = numbers.places(comparison)
    tried = ", ".join(
        f"{name}: {'failed' if score is None else numbers.fixed(score, digits)}"
        for name, score in tuning.tried.items()
    )
    text = (
        f"The tuned baseline took {tuning.chosen} from a grid of learning rates, over "
        f"{len(tuning.seeds)} seeds that the table does not use ({tried}). It was chosen by test score, "
        "which favours it."
    )
    return tag("p", text, class_="about")
