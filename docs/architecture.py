"""Draw which folder of src/gaf imports which: `python docs/architecture.py` writes images/architecture.svg.

A row is a folder, a column one that it may import, a dot an import. Everything is read from the sources by
`ast`; nothing is imported. Rows stand in the order of the design: all dots are left of the diagonal.
"""

from __future__ import annotations

import ast
from html import escape
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src"
PICTURE = Path(__file__).parent / "images" / "architecture.svg"

#: Folders in the order of the design, and the question that each answers.
FOLDERS = {
    "common": "What do all need? Errors, files, texts",
    "functions": "What squashes a gradient?",
    "kernels": "How fast?",
    "optim": "Where does it act?",
    "trials": "What is a script asked for?",
    "integrations": "Is it at home elsewhere?",
    "lab.theory": "Is it true?",
    "lab.landscape": "What does it look like?",
    "lab.data": "What is learned from?",
    "lab.tasks": "What is trained?",
    "lab.engine": "How does one run train?",
    "lab.study": "What do many runs say?",
    "lab.reports": "What do we show?",
    "lab.bench": "What does a step cost?",
    "lab.cli": "One file a command",
}
ROW, NAMES, TOP, QUESTION = 30, 120, 112, 180  # pixels: a cell, the names, the head, the questions

STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; }
.question { fill: #59636e; } .room { fill: #fff; } .cell { fill: #eff2f5; } .own { fill: #d1d9e0; }
.import { fill: #0b69a3; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .question { fill: #9198a1; } .room { fill: #0d1117; } .cell { fill: #1d2430; }
  .own { fill: #3d444d; } .import { fill: #58b4f0; }
}
"""


def folder_of(module: str) -> str | None:
    """The folder of a dotted name: ``gaf.lab.data.voc`` is in lab.data; None for gaf itself."""
    parts = module.split(".")
    name = ".".join(parts[1:3]) if parts[1:2] == ["lab"] else ".".join(parts[1:2])
    return name if parts[0] == "gaf" and name in FOLDERS else None


def imports() -> set[tuple[str, str]]:
    """Pairs of folders of which the first imports the second, also inside of functions."""
    pairs = set()
    for file in sorted((SRC / "gaf").rglob("*.py")):
        own = folder_of(".".join(file.relative_to(SRC).with_suffix("").parts))
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            pairs |= {(own, other) for name in names if own and (other := folder_of(name))}
    return {(own, other) for own, other in pairs if own != other}


def drawing() -> str:
    """The picture as SVG, light or dark as the reader's system is."""
    pairs, names = imports(), list(FOLDERS)
    width, height = NAMES + len(names) * ROW + QUESTION, TOP + len(names) * ROW + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Folders of src/gaf and their imports</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="room" width="{width}" height="{height}" rx="8"/>',
    ]
    for row, name in enumerate(names):
        x, y = NAMES + row * ROW, TOP + row * ROW
        turned = f'transform="translate({x + 20} {TOP - 8}) rotate(-60)"'
        parts.append(f"<text {turned}>{escape(name)}</text>")
        parts.append(f'<text x="{NAMES - 10}" y="{y + 20}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<text class="question" x="{x + ROW + 12}" y="{y + 20}">{escape(FOLDERS[name])}</text>'
        )
        for column, other in enumerate(names[: row + 1]):
            kind = "own" if column == row else "cell"
            place = NAMES + column * ROW
            parts.append(
                f'<rect class="{kind}" x="{place + 1}" y="{y + 1}" width="28" height="28"/>'
            )
            if (name, other) in pairs:
                about = f"<title>{name} imports {other}</title>"
                parts.append(
                    f'<circle class="import" cx="{place + 15}" cy="{y + 15}" r="6">{about}</circle>'
                )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawing(), "utf-8")
