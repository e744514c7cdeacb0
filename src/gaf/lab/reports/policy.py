"""What a page may do, said to the browser in the page itself: its own scripts, and nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache


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
