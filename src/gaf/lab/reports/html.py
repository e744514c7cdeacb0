"""HTML in which text cannot become markup: whatever is not made by :func:`tag` is escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

VOID = ("meta", "br", "wbr", "input")


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(text: object) -> Html:
    """Text as markup that shows it.

    Example:
        >>> escape("<script>")
        '&lt;script&gt;'
    """
    return text if isinstance(text, Html) else Html(html.escape(str(text)))


def join(parts: Iterable[object], between: object = "") -> Html:
    """Parts one after the other; those that are plain text are escaped."""
    return Html(escape(between).join(map(escape, parts)))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element; ``class_`` and ``data_x`` stand for class and data-x, None for no attribute.

    Example:
        >>> tag("p", "1 < 2", tag("br"), class_="note", hidden=None)
        '<p class="note">1 &lt; 2<br></p>'
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    start = f"<{name}{shown}>"
    return Html(start if name in VOID else f"{start}{join(children)}</{name}>")


def plotly_text(text: str) -> str:
    """Text as plotly shows it: it reads some tags and entities in names, titles and hover texts.

    Example:
        >>> plotly_text("<b>")
        '&lt;b&gt;'
    """
    return html.escape(text, quote=False)


def script_json(value: Any) -> Html:
    r"""JSON to stand in a script element, which nothing in it can end; inf and NaN are null.

    Example:
        >>> script_json({"name": "</script>", "y": [float("nan")]})
        '{"name":"\\u003c/script\\u003e","y":[null]}'
    """
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Html(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def policy(*scripts: str) -> str:
    """The Content-Security-Policy: run these scripts, apply inline styles, show the page's own pictures."""
    allowed = " ".join(_digest(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def _digest(script: str) -> str:
    found = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(found).decode()}'"


def script_safe(code: str) -> str:
    """Code for a script element, which the letters ``</script`` or ``<!--`` in it would end or confuse.

    Inside the strings and patterns of JavaScript, the only place for them, a backslash changes nothing.
    """
    return re.sub("</(?=script)", r"<\\/", code, flags=re.IGNORECASE).replace("<!--", r"<\!--")
