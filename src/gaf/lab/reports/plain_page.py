"""The frame of a page: one HTML file, everything in it, no request to anywhere.

Text from outside is escaped by :mod:`gaf.lab.reports.html`; a policy in the page lets only its own
scripts run.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import gaf
from gaf.lab.reports.css import CSS
from gaf.lab.reports.curves import CurvePlot
from gaf.lab.reports.html import Html, policy, script_json, script_safe, tag
from gaf.lab.reports.script import SCRIPT


def document(title: str, parts: Iterable[Html], figures: dict[str, CurvePlot]) -> str:
    """The page as text; ``figures`` are drawn where :func:`plots` has left places for them."""
    data = {name: {"data": each.data, "layout": each.layout} for name, each in figures.items()}
    code = [*([_plotly()] if figures else []), script_safe(SCRIPT)]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(*code)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"activated-gradients {gaf.__version__}"),
        tag("title", title),
        tag("style", Html(CSS)),
    )
    scripts = [
        tag("script", script_json(data), type="application/json", id="figures"),
        *(tag("script", Html(each)) for each in code),
    ]
    body = tag("body", tag("main", *parts), *scripts)
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def plots(
    some: Iterable[CurvePlot], figures: dict[str, CurvePlot], class_: str = "pair plots"
) -> Html:
    """Headings and empty places, under names that are added to ``figures``."""
    found = []
    for figure in some:
        name = f"figure-{len(figures)}"
        figures[name] = figure
        about = tag("p", figure.about, class_="about") if figure.about else ""
        place = tag("div", id=name, class_="plot", role="img", aria_label=figure.title)
        found.append(tag("figure", tag("h3", figure.title), about, place))
    return tag("div", *found, class_=class_)


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return script_safe(get_plotlyjs().replace("\r\n", "\n"))
