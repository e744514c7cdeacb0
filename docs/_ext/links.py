"""Links that plain Markdown cannot make: from `gaf.SGD` in a sentence to its place in the reference.

Pages stay Markdown that a code host shows well; here inline code that names something of the reference leads
there, a type in a signature leads to the name under which it is documented, and links into the repository
lead to what the site can give of it.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

LONG = 20  # characters of a name in a table
DOT = re.compile(r"(?<=\.)(?=[A-Za-z_])")  # of a name, not of a number


class NamesToReference(SphinxPostTransform):
    """Inline code with the name of a documented object becomes a link to it."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        """Look at all inline code of a page that is not a link or a heading already."""
        domain = self.env.get_domain("py")
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext().partition("(")[0]
            if not name.startswith("gaf.") or name not in domain.objects or _is_inside(literal):  # type: ignore[attr-defined]
                continue
            found = domain.resolve_xref(
                *(self.env, self.env.docname, self.app.builder, "obj", name),
                addnodes.pending_xref("", refdomain="py", reftype="obj", reftarget=name),
                literal.deepcopy(),
            )
            if found is not None:
                literal.replace_self(found)


class BreakableNames(SphinxPostTransform):
    """A long dotted name in a table may break after a dot, so that the other columns have room."""

    default_priority = 900
    builders = ("html",)

    def run(self, **_: Any) -> None:
        """Where a browser may break, there is nothing to copy."""
        for entry in self.document.findall(nodes.entry):
            for literal in entry.findall(nodes.literal):
                text = literal.astext()
                *parts, last = DOT.split(text)
                if len(text) > LONG and " " not in text and parts:
                    literal.clear()
                    for part in parts:
                        literal += [nodes.Text(part), nodes.raw("", "<wbr>", format="html")]
                    literal += nodes.Text(last)


class OutsideTheSite(SphinxTransform):
    """Links into the repository: a Markdown file is given as it is, a folder is named by its text.

    A code host shows both; MyST gives other files of the repository by itself.
    """

    default_priority = 1

    def apply(self, **_: Any) -> None:
        """Before MyST resolves links."""
        here = (self.env.srcdir / self.env.docname).parent
        for link in list(self.document.findall(addnodes.pending_xref)):
            target = link.get("reftarget", "")
            if link.get("refdomain") == "doc" and Path(target).is_absolute():  # not below docs/
                file = os.path.relpath(f"{target}.md", here)
                inner = addnodes.download_reference("", "", *link.children, reftarget=file)
                link.replace_self(inner)
            elif (here / target).is_dir():
                link.replace_self(nodes.inline("", "", *link.children))


def as_documented(app: Any, env: Any, node: addnodes.pending_xref, content: nodes.Node) -> Any:
    """`gaf.functions.base.Activation`, as annotations have it, is `gaf.Activation` in the reference."""
    wanted = _object(node.get("reftarget", ""))
    if wanted is None:
        return None
    domain = env.get_domain("py")
    for name in domain.objects:
        if name.rpartition(".")[2] == wanted.__name__ and _object(name) is wanted:
            refdoc = node.get("refdoc", env.docname)
            return domain.resolve_xref(env, refdoc, app.builder, "obj", name, node, content)
    return None


def _object(name: str) -> Any:
    """The class or function of ours with this name, or None."""
    module, _, last = name.rpartition(".")
    if not module.startswith("gaf"):
        return None
    try:
        found = getattr(import_module(module), last, None)
    except ImportError:
        return None
    return found if hasattr(found, "__name__") else None


def _is_inside(node: nodes.Node) -> bool:
    links = nodes.reference | addnodes.pending_xref  # a link in a link has no text in a browser
    while node := node.parent:  # type: ignore[assignment]
        if isinstance(node, links | nodes.title | addnodes.desc_signature):
            return True
    return False


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(OutsideTheSite)
    app.add_post_transform(NamesToReference)
    app.add_post_transform(BreakableNames)
    app.connect("missing-reference", as_documented)
    return {"parallel_read_safe": True}
