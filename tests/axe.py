"""What axe-core finds on a page: https://github.com/dequelabs/axe-core, from npm, once a session.

findings = axe(page)  # ["color-contrast (serious): ...: <td class=...>"]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.browser import Page

VERSION = "4.14.0"
LEVELS = ("serious", "critical")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")
needs_npm = pytest.mark.skipif(
    shutil.which("npm") is None,
    reason="needs npm for axe-core: apt-get install --no-install-recommends npm",
)


@cache
def _script() -> str:
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(
            [*command, "--prefix", folder, f"axe-core@{VERSION}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            pytest.skip(f"npm cannot install axe-core: {done.stderr.strip()[-200:]}")
        return Path(folder, "node_modules", "axe-core", "axe.min.js").read_text("utf-8")


def axe(page: Page) -> list[str]:
    """The serious and critical findings on a page as it is shown now, a line for each element."""
    page.run(f"{_script()}; true")
    options = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
    found = page.run(
        f"axe.run(document, {json.dumps(options)}).then(r => r.violations.flatMap(v => v.nodes.map(n =>"
        " [v.id, n.impact || v.impact, v.help, n.html.slice(0, 160)])))"
    )
    return [
        f"{rule} ({level}): {said}: {element}"
        for rule, level, said, element in found
        if level in LEVELS
    ]
