"""What the theme leaves out: the level of a heading for screen readers, scrolling by keyboard."""

from __future__ import annotations

from typing import Any

CAPTION = 'role="heading"'
KEYS = 'tabindex="0"'
# What scrolls sideways where it is wider than the page, so that a key must reach it.
SCROLLS = {
    '<div class="highlight"><pre>': f'<div class="highlight"><pre {KEYS}>',
    '<div class="table-wrapper': f'<div {KEYS} class="table-wrapper',
    '<div class="cell_output': f'<div {KEYS} class="cell_output',
}


def complete(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Captions of the menu are headings of a level, and what scrolls can be reached by a key."""
    if menu := context.get("furo_navigation_tree"):
        context["furo_navigation_tree"] = menu.replace(CAPTION, f'{CAPTION} aria-level="2"')
    for tag, reached in SCROLLS.items():
        context["body"] = context.get("body", "").replace(tag, reached)


def setup(app: Any) -> dict[str, bool]:
    """Join Sphinx, after the theme has made its menu."""
    app.connect("html-page-context", complete, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
