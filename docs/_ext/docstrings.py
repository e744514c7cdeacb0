"""Docstrings are written to be read as text; here they become what Sphinx parses.

|g| is an absolute value, not a substitution; a list of arguments may run over several lines; a property may
begin with a formula and a colon, which napoleon would take for a type; formulas set in by four spaces keep
their lines; and the few in TeX are shown in Unicode, so that no page needs a script for them.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.inspect import stringify_signature

TEX = re.compile(r":math:`(.*?)`")
SIGNS = {
    r"\leftarrow": "←",
    r"\mathrm{sign}": "sign",
    r"\mathrm{asinh}": "asinh",
    r"\sqrt{1 + (\beta g)^2}": "√(1 + (βg)²)",
    r"\min": "min",
    r"\max": "max",
    r"\alpha": "α",
    r"\beta": "β",
    r"\eta": "η",
    r"\lambda": "λ",
    r"\mu": "μ",
    r"\nabla": "∇",
    r"\tau": "τ",
    r"\arctan": "arctan",
    r"\tanh": "tanh",
    r"\ln": "ln",
    r"\,": " ",
    r"\pi": "π",
    r"\hat m": "m̂",
    r"\sqrt{\hat v}": "√v̂",
    r"\epsilon": "ε",
    "_1": "₁",
    "_2": "₂",
    "_0": "₀",
}
BARS = re.compile(r"(``.*?``|:\w+:`.*?`)|\|")
MORE_NAMES = re.compile(r"^\s+[\w, ]+,$")
DASH = re.compile(r"(?<=[*`]) -- ")
FORMULA = re.compile(r"^ {4}\S.* (=|≤) ")


def mend(app: Any, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Before napoleon reads a docstring."""
    mended: list[str] = []
    for line in lines:
        if mended and MORE_NAMES.match(mended[-1]):
            mended[-1] += f" {line.strip()}"
        elif line.lstrip().startswith((">>>", "...")):
            mended.append(line)
        else:
            mended.append(BARS.sub(lambda found: found[1] or r"\|", TEX.sub(_in_unicode, line)))
    if what == "module":
        mended = [FORMULA.sub(lambda found: f"    | {found[0].lstrip()}", line) for line in mended]
    if what == "property" and mended:
        mended[0] = mended[0].replace(": ", " – ", 1)
    lines[:] = mended


def dashes(app: Any, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Napoleon's, between a name and what it is; elsewhere two hyphens begin an option."""
    lines[:] = [DASH.sub(" – ", line) for line in lines]


class Dashes(SphinxPostTransform):
    """Sphinx's own, between an exception and when it is raised."""

    default_priority = 900

    def run(self, **_: Any) -> None:
        """A text of its own, which no sentence is."""
        for text in list(self.document.findall(nodes.Text)):
            if text == " -- ":
                text.parent.replace(text, nodes.Text(" – "))


def signature(app: Any, what: str, name: str, of: Any, options: Any, said: str, back: str) -> Any:
    """Of a class whose base is a framework's that is mocked: that of its own __init__."""
    if what != "class" or said != "(*args: Any, **kwargs: Any)" or "__init__" not in vars(of):
        return None
    own = inspect.signature(of.__init__)
    without_self = own.replace(parameters=list(own.parameters.values())[1:])
    return stringify_signature(without_self, show_return_annotation=False), back


def _in_unicode(found: re.Match[str]) -> str:
    text = found[1]
    for tex, sign in SIGNS.items():
        text = text.replace(tex, sign)
    if "\\" in text:
        raise ValueError(f"docs/_ext/docstrings.py does not know how to show {found[1]!r}")
    return text


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx; napoleon has priority 500."""
    app.connect("autodoc-process-docstring", mend, priority=400)
    app.connect("autodoc-process-docstring", dashes, priority=600)
    app.add_post_transform(Dashes)
    app.connect("autodoc-process-signature", signature)
    return {"parallel_read_safe": True}
