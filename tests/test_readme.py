"""README.md tells the truth: its Python blocks run, in order, as one program."""

import runpy
import sys
import types
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
CHECK = types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "check.py")))


def test_readme_blocks_run(tmp_path, monkeypatch):
    assert README.exists(), "there is no README.md"
    blocks = list(CHECK.python_blocks(README.read_text("utf-8")))
    assert blocks, "README.md shows no Python"

    module = types.ModuleType("readme")  # a real module: dataclasses and pickle look theirs up
    monkeypatch.setitem(sys.modules, "readme", module)
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():  # a seed set by an example must not reach other tests
        for first_line, code in blocks:
            exec(CHECK.compile_block(code, first_line, README), vars(module))


def test_blocks_are_found_with_their_lines():
    text = "# A\n\n```python\nx = 1\n```\n```bash\nls\n```\n- item\n  ```python\n  y = 2\n  ```\n"
    assert list(CHECK.python_blocks(text)) == [(4, "x = 1\n"), (11, "y = 2\n")]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a](missing.md)", "page.md:1: link to missing.md: no such file"),
        ("![a](missing.png)", "page.md:1: link to missing.png: no such file"),
        ("[a]: missing.md", "page.md:1: link to missing.md: no such file"),
        ('<img src="missing.png">', "page.md:1: link to missing.png: no such file"),
        ("# One\n[a](#two)", "page.md:2: link to #two: no such heading"),
        ("[a](../../x.md)", "page.md:1: link to ../../x.md: outside the repository"),
        (
            "# A\n\nIt has 92.5 % at best.\n\n# B\n`results/x.json`\n\n7.5 ms",
            "page.md:3: 92.5 %: a measured number, and the section names no record",
        ),
        ("\n```python\n1 +\n```", "page.md:3: Python block does not compile: invalid syntax"),
    ],
)
def test_docs_check_complains(tmp_path, text, complaint):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert list(CHECK.complaints(page, tmp_path)) == [complaint]


def test_docs_check_accepts_a_sound_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One, `two`\n[self](page.md#one-two) [here](#one-two) [web](https://example.org/x)\n"
        "`[code](missing.md)` 1.5 times, see `results/x.json`\n# Two\nalpha `0.5 %`\n# Three\n9.5 ms\n"
        "<!-- no record: an example -->\n```text\n[fenced](missing.md)\n# not a heading\n```\n"
    )
    assert list(CHECK.complaints(page, tmp_path)) == []
