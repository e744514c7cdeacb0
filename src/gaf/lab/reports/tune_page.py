"""The page of a tuning: the verdict, the line to copy, the reasons, the plots, the race."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import gaf
from gaf.common.files import write_whole
from gaf.lab.reports.html import Html, tag
from gaf.lab.reports.page import PAGE
from gaf.lab.reports.plain_page import document, plots
from gaf.lab.reports.sections import flat, plain_table
from gaf.lab.reports.tune_figures import figures


def write_page(found: dict[str, Any], folder: Path) -> Path:
    """Write the page of a record (see :class:`gaf.lab.study.results.Tuned`), whole or not at all."""
    path = folder / PAGE
    write_whole(path, render(found).encode("utf-8", "replace"))
    return path


def render(found: dict[str, Any]) -> str:
    """The page as text."""
    drawn: dict[str, Any] = {}
    cost = found["cost"]
    reasons = [
        part
        for subject, sentence in found["reasons"]
        for part in (tag("dt", subject), tag("dd", sentence))
    ]
    environment = [
        part
        for key, value in flat(found["environment"])
        for part in (tag("dt", key), tag("dd", value))
    ]
    parts = [
        tag("h1", f"Tuning {found['title']}"),
        tag("p", found["task"], class_="soft"),
        tag("p", found["verdict"], class_="headline"),
        tag("pre", found["line"]) if found["helps"] else Html(""),
        tag("h2", "Why"),
        tag("p", f"The paper's rule recommends {found['recommended']['name']}.", class_="about"),
        tag("dl", *reasons),
        tag("h2", "What was seen"),
        plots(figures(found), drawn),
        tag("h2", "The final"),
        tag(
            "p",
            f"After {cost['final']} of {cost['total']} steps, on seeds that took no part in the choice. "
            "Gains are the winner's, with paired 95 % intervals; verdicts are corrected for there being two.",
            class_="about",
        ),
        _final(found),
        tag("h2", "The race"),
        tag("p", _cost(found), class_="about"),
        tag("details", tag("summary", "All candidates, best first"), _race(found)),
        tag("h2", "How to make it again"),
        tag("pre", shlex.join(found["command"]) or "not recorded"),
        tag("h2", "Environment"),
        tag("dl", *environment),
        tag(
            "footer",
            f"Tuned {found['created']}; page by activated-gradients {gaf.__version__}.",
            class_="about",
        ),
    ]
    return document(f"Tuning {found['title']}", parts, drawn)


def _cost(found: dict[str, Any]) -> str:
    cost = found["cost"]
    return (
        f"{cost['candidates']} candidates trained for {cost['first']} steps on one seed, the best "
        f"{cost['kept']} for {cost['second']} on two others. It chooses by the score on the test set. In all "
        f"{cost['steps']} steps of the optimizer with the probe and all seeds, {cost['share']:.1%} of the "
        f"{cost['in_full']} of running every candidate in full on the final's seeds."
    )


def _final(found: dict[str, Any]) -> Html:
    score = found["score"]
    rows = [(found["winner"]["name"], _scores(score["winner"]), "", "")]
    for each in found["against"]:
        gain = f"{_shown(each['mean'])} [{_shown(each['low'])}, {_shown(each['high'])}]"
        rows.append((each["name"], _scores(each["scores"]), gain, each["verdict"]))
    heads = ("setting", f"{score['name']} by seed", "the winner's gain", "verdict")
    return plain_table(heads, rows)


def _race(found: dict[str, Any]) -> Html:
    cost = found["cost"]
    heads = ("candidate", f"after {cost['first']} steps", f"after {cost['second']} steps", "from")
    rows = [
        (each["name"], _shown(each["first"]), _scores(each["second"]), each["source"])
        for each in found["raced"]
    ]
    return plain_table(heads, rows)


def _scores(scores: list[Any]) -> str:
    return ", ".join(map(_shown, scores))


def _shown(value: Any) -> str:
    """A score; inf and NaN come as words."""
    return "–" if value is None else value if isinstance(value, str) else f"{value:.4g}"
