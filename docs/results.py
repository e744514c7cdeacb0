"""Fill numbers of these pages from results/: `python docs/results.py` rewrites what differs.

A line `<!-- results/text, 3 digits -->` stands above a table of the comparison in that folder, and a line
`<!-- results/text: auto@gradient minus clip-norm-1, 3 digits -->` above one line that compares two settings.
"""

from __future__ import annotations

import re
from pathlib import Path

from gaf.common.files import write_whole
from gaf.lab.study.compare import read
from gaf.lab.study.results import Difference
from gaf.lab.study.statistics import Paired, paired

HERE = Path(__file__).parent
MARKED = re.compile(r"(<!-- (results/[\w/-]+), (\d) digits -->\n\n)((?:\|.*\n)*)")
PAIRED = re.compile(r"(<!-- (results/[\w/-]+): (.+?) minus (.+?), (\d) digits -->\n)(.*\n)")
HEAD = """\
| setting | mean | deviation | minus the baseline | minus its control |
|---|---|---|---|---|
"""


def table(folder: Path, digits: int) -> str:
    """The comparison of a folder: every setting, with its difference to the baseline and to its control."""

    def told(difference: Difference | None) -> str:
        return "" if difference is None else f"{interval(difference, digits)}, {difference.verdict}"

    lines = []
    for row in read(folder).rows:
        names = ", ".join(f"`{name}`" for name in (row.setting, *row.also))
        differences = f"{told(row.vs_baseline)} | {told(row.vs_control)}"
        mean, std = number(row.mean, digits), number(row.std, digits)
        lines.append(f"| {names} | {mean} | {std} | {differences} |\n")
    return HEAD + "".join(lines)


def number(value: float, digits: int, sign: str = "") -> str:
    """A number for people, with a true minus."""
    return f"{value:{sign}.{digits}f}".replace("-", "−")


def interval(found: Difference | Paired, digits: int) -> str:
    """A difference and its 95 % interval."""
    mean, low, high = (number(x, digits, "+") for x in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]"


def pair(folder: Path, setting: str, reference: str, digits: int) -> str:
    """One setting against another, seed by seed."""
    scores = {name: row.scores for row in read(folder).rows for name in (row.setting, *row.also)}
    found = paired(scores[setting], scores[reference])
    return f"`{setting}` minus `{reference}`: {interval(found, digits)}, {found.n} seeds.\n"


def filled(text: str) -> str:
    """A page with its marked tables and lines as the results have them."""
    root = HERE.parent
    text = MARKED.sub(lambda found: found[1] + table(root / found[2], int(found[3])), text)
    return PAIRED.sub(
        lambda found: found[1] + pair(root / found[2], found[3], found[4], int(found[5])), text
    )


def main() -> None:
    """Rewrite the pages that differ, and say which."""
    for page in sorted(HERE.glob("*.md")):
        text = page.read_text("utf-8")
        if filled(text) != text:
            write_whole(page, filled(text).encode())
            print(f"{page.name}: filled from results/")


if __name__ == "__main__":
    main()
