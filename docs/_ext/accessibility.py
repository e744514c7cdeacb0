"""What the theme leaves out for screen readers: the level of a heading, scrolling by keyboard."""

from __future__ import annotations

from typing import Any

CAPTION, SCROLLS = 'role="heading"', '<div class="cell_output docutils container"'


def complete(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Captions of the menu are headings of a level; outputs of notebooks scroll, so a key must reach them."""
    if menu := context.get("furo_navigation_tree"):
        context["furo_navigation_tree"] = menu.replace(CAPTION, f'{CAPTION} aria-level="2"')
    if body := context.get("body"):
        reached = f'{SCROLLS} tabindex="0" role="region" aria-label="Output"'
        context["body"] = body.replace(SCROLLS, reached)


def setup(app: Any) -> dict[str, bool]:
    """Join Sphinx, after the theme has made its menu."""
    app.connect("html-page-context", complete, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
