"""Pages from templates, in which text cannot become markup: each one file with everything in it.

Templates are escaped by Jinja2, and a policy in the page lets only its own scripts run. plotly.js stands in
the page compressed (``plotly/README.md`` says which parts of it) and is unpacked by the browser: Chrome and
Edge 80, Safari 16.4, Firefox 113 or later.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import gaf
from gaf.common.files import write_whole
from gaf.lab.reports import numbers
from gaf.lab.reports.tables import ResultTable
from gaf.lab.study.results import Difference

PAGE = "report.html"
PACKAGE = files("gaf.lab.reports")
PLOTLY = "sha256-iO3xq9wUWT/PO0OX9+ABdQoSod9gpM9vbITWZdf5OSQ="  # of the code, unpacked
MARKS = ("better", "worse", "failed", "baseline")  # verdicts that the style sheet knows
FAR = 2.5  # times the median: a difference beyond is drawn as an arrow


@dataclass(frozen=True)
class CurvePlot:
    """A plot with its heading, as plotly reads it; traces carry the setting they belong to as ``meta``.

    A colour may be a variable of the style sheet, ``var(--ink)``, which is light on a dark page.
    """

    title: str
    about: str
    data: list[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)


def render(
    template: str,
    plots: Mapping[str, Sequence[CurvePlot]] | None = None,
    scripts: Sequence[str] = ("page.js",),
    **values: Any,
) -> str:
    """A page as text.

    Args:
        template: its name in ``templates/``.
        plots: by group; the template has a place for each.
        scripts: names of files in ``templates/`` or code, :class:`markupsafe.Markup`.
        values: what the template shows.
    """
    number = 0
    places: dict[str, list[tuple[str, CurvePlot]]] = {}
    for group, figures in (plots or {}).items():
        places[group] = [(f"figure-{number + i}", figure) for i, figure in enumerate(figures)]
        number += len(figures)
    drawn = {
        name: {"data": figure.data, "layout": figure.layout}
        for group in places.values()
        for name, figure in group
    }
    has_plotly = bool(drawn) or plots is None
    parts = (*(("plotly.js",) if has_plotly else ()), *scripts)
    code = "\n".join(part if isinstance(part, Markup) else asset(part) for part in parts)
    script = script_safe(code)
    return (
        templates()
        .get_template(template)
        .render(
            policy=policy(*((PLOTLY,) if has_plotly else ()), digest(script)),
            plotly=packed_plotly() if has_plotly else None,
            plots=places,
            figures=script_json(drawn),
            script=Markup(script),
            **values,
        )
    )


def write(page: str, path: Path) -> Path:
    """Write a page, whole or not at all; a name in it may hold half a character."""
    write_whole(path, page.encode("utf-8", "replace"))
    return path


@cache
def templates() -> Environment:
    """The templates of the pages: everything is escaped, and a name without a value is an error."""
    environment = Environment(
        loader=PackageLoader("gaf.lab.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"asset": lambda name: Markup(asset(name)), "version": gaf.__version__}
    environment.filters |= {
        "breakable": breakable,
        "command": lambda words: shlex.join(words) or "not recorded",
        "fixed": numbers.fixed,
        "flat": flat,
        "mark": lambda verdict: verdict if verdict in MARKS else "same",
        "reach": reach,
        "sort_value": sort_value,
        "whisker": whisker,
    }
    return environment


def asset(name: str) -> str:
    """A style sheet or script of the pages."""
    return (PACKAGE / "templates" / name).read_text("utf-8")


@cache
def packed_plotly() -> str:
    """plotly.js, compressed and in letters."""
    return base64.b64encode((PACKAGE / "plotly" / "plotly.min.js.gz").read_bytes()).decode()


def plotly_text(text: str) -> str:
    """Text as plotly shows it: it reads some tags and entities in names, titles and hover texts.

    Example:
        >>> plotly_text("<b>")
        '&lt;b&gt;'
    """
    return html.escape(text, quote=False)


def script_json(value: Any) -> Markup:
    r"""JSON to stand in a script element, which nothing in it can end; inf and NaN are null.

    Example:
        >>> print(script_json({"name": "</script>", "y": [float("nan")]}))
        {"name":"\u003c/script\u003e","y":[null]}
    """
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def script_safe(code: str) -> str:
    """Code for a script element, which the letters ``</script`` or ``<!--`` in it would end or confuse.

    Inside the strings and patterns of JavaScript, the only place for them, a backslash changes nothing.
    """
    return re.sub("</(?=script)", r"<\\/", code, flags=re.IGNORECASE).replace("<!--", r"<\!--")


def policy(*digests: str) -> str:
    """The Content-Security-Policy: run these scripts, apply inline styles, show the page's own pictures."""
    allowed = " ".join(f"'{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


def digest(script: str) -> str:
    """The checksum by which a policy knows a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def breakable(text: str) -> Markup:
    """A long name that may go on in a new line after a sign.

    Example:
        >>> print(breakable("control(log(1)@update)"))
        control(<wbr>log(1)<wbr>@update)
    """
    # Markup's join escapes the parts: without it a name from elsewhere would be HTML of the page
    return Markup("<wbr>").join(re.split(r"(?:(?<=[)/,])|(?<=^control\())(?=[^\s)])", text))


def sort_value(value: float | None) -> str | None:
    """A number as JavaScript reads it; None where there is none.

    Example:
        >>> sort_value(0.5), sort_value(-math.inf), sort_value(math.nan)
        ('0.5', '-Infinity', None)
    """
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(value)


def reach(table: ResultTable[Any]) -> float:
    """How far drawn intervals go to both sides of 0: to the widest, but not so far that most are dots."""
    differences = (column.difference(row) for column in table.columns for row in table.rows)
    ends = [
        max(abs(difference.low), abs(difference.high))
        for difference in differences
        if difference is not None and math.isfinite(difference.high - difference.low)
    ]
    wide = [end for end in ends if end > 0]
    return min(max(wide), FAR * statistics.median(wide)) if wide else 1.0


def whisker(difference: Difference | None, reach: float) -> dict[str, float] | None:
    """Where a drawing 120 wide has a difference and the ends of its interval; None where there is no drawing.

    Example:
        >>> numbers = {"p": 0.1, "p_corrected": 0.1, "n": 3, "verdict": "no difference"}
        >>> whisker(Difference(against="b", mean=0.5, low=-0.5, high=1.5, **numbers), 1.0)
        {'low': 32.5, 'mean': 87.5, 'high': 115.0, 'arrow': 0.0}
    """
    if difference is None or not math.isfinite(difference.high - difference.low):
        return None

    def x(value: float) -> float:
        return round(60 + 55 * max(-1.0, min(1.0, value / reach)), 1)

    beyond = abs(difference.mean) > reach
    return {
        **{key: x(getattr(difference, key)) for key in ("low", "mean", "high")},
        "arrow": math.copysign(5, difference.mean) if beyond else 0.0,
    }


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested values line by line: those without further nesting share one.

    Example:
        >>> list(flat({"versions": {"torch": "2.13", "numpy": "2.4"}, "cores": 2, "resumed": []}))
        [('versions', 'torch 2.13, numpy 2.4'), ('cores', '2')]
    """
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and any(
            isinstance(inner, dict | list) for inner in value.values()
        ):
            yield from flat(value, f"{name}.")
        elif isinstance(value, dict):
            if value:
                yield name, ", ".join(f"{inner} {text}" for inner, text in value.items())
        elif isinstance(value, list | tuple):
            if value and all(isinstance(text, str) for text in value):
                yield name, shlex.join(value)
            elif value:
                yield name, ", ".join(map(str, value))
        elif value is not None:
            yield name, str(value)
