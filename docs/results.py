"""Fill the tables of these pages from results/: `python docs/results.py` rewrites those that differ.

A line `<!-- results/text, 3 digits -->` stands above a table of the comparison in that folder.
"""

from __future__ import annotations

import re
from pathlib import Path

from gaf.experiments import comparison
from gaf.experiments.comparison import Difference
from gaf.experiments.engine.files import write_whole

HERE = Path(__file__).parent
MARKED = re.compile(r"(<!-- (results/[\w/-]+), (\d) digits -->\n\n)((?:\|.*\n)*)")
HEAD = """\
| setting | mean | deviation | minus the baseline | minus its control |
|---|---|---|---|---|
"""


def table(folder: Path, digits: int) -> str:
    """The comparison of a folder: every setting, with its difference to the baseline and to its control."""

    def number(value: float, sign: str = "") -> str:
        return f"{value:{sign}.{digits}f}".replace("-", "−")

    def told(difference: Difference | None) -> str:
        if difference is None:
            return ""
        low, high = number(difference.low, "+"), number(difference.high, "+")
        return f"{number(difference.mean, '+')} [{low}, {high}], {difference.verdict}"

    lines = []
    for row in comparison.read(folder).rows:
        names = ", ".join(f"`{name}`" for name in (row.setting, *row.also))
        differences = f"{told(row.vs_baseline)} | {told(row.vs_control)}"
        lines.append(f"| {names} | {number(row.mean)} | {number(row.std)} | {differences} |\n")
    return HEAD + "".join(lines)


def filled(text: str) -> str:
    """A page with its marked tables as the results have them."""
    return MARKED.sub(lambda found: found[1] + table(HERE.parent / found[2], int(found[3])), text)


def main() -> None:
    """Rewrite the pages whose tables differ, and say which."""
    for page in sorted(HERE.glob("*.md")):
        text = page.read_text("utf-8")
        if filled(text) != text:
            write_whole(page, filled(text).encode())
            print(f"{page.name}: tables filled from results/")


if __name__ == "__main__":
    main()
