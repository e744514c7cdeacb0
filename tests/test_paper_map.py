"""docs/paper-map.md has every numbered thing of the paper, and what it names exists."""

import re
import runpy
import types
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "paper-map.md").read_text("utf-8")
CHECK = types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "check.py")))

# As LaTeX numbers the paper's source: environments of each kind, in order.
NUMBERED = {
    "Definition": 3,
    "Assumption": 4,
    "Remark": 1,
    "Lemma": 2,
    "Theorem": 6,
    "Equation": 32,
    "Algorithm": 1,
    "Figure": 5,
    "Table": 4,
}
ITEM = re.compile(r"(\w+?)s? (\d+)(?: (to|and) (\d+))?")


def rows(page):
    """The first and the third cell of each row of its tables."""
    cells = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return [(each[0].strip(), each[2]) for each in cells if len(each) > 2]


def items(page):
    """Every (kind, number) that has a row, as often as it has one."""
    for first, _ in rows(page):
        if found := ITEM.fullmatch(first):
            kind, begin, _, end = found.groups()
            yield from ((kind, number) for number in range(int(begin), int(end or begin) + 1))


def named(page):
    """What the page names in inline code: functions of gaf, and commands."""
    return re.findall(r"`(gaf[ .][^`]*)`", page)


def problem(name):
    """Why a name or a command of the page does not exist."""
    if name.startswith("gaf "):
        words = name.split()[1:]
        return CHECK.gaf_problem(words) or _value_problem(words)
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return f"{name}: no {part}"
            found = getattr(found, part)
        return ""
    return f"{name}: no such module"


def _value_problem(words):
    """The parser takes any number and name here; the commands' own lists do not."""
    from gaf.lab.reports.figures import find as find_figure
    from gaf.lab.theory.statements import find as find_statement

    try:
        if words[0] == "figure":
            for number in words[1:]:
                find_figure(int(number))
        if "--statement" in words:
            find_statement(words[words.index("--statement") + 1])
    except ValueError as error:
        return str(error)
    return ""


def test_every_numbered_thing_has_one_row():
    wanted = [(kind, n) for kind, count in NUMBERED.items() for n in range(1, count + 1)]
    assert sorted(items(PAGE)) == sorted(wanted)


def test_every_row_names_what_realises_it():
    for first, here in rows(PAGE)[1:]:
        assert first == "in the paper" or set(first) == {"-"} or named(here), f"{first} has nothing"


@pytest.mark.parametrize("name", sorted(set(named(PAGE))))
def test_what_is_named_exists(name):
    assert problem(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "gaf.lab.theory.lemmas.lemma_3",
        "gaf.nothing.at_all",
        "gaf figure 6",
        "gaf table mnist",
        "gaf theory --statement theorem-7",
        "gaf table voc --scale huge",
        "gaf prove",
    ],
)
def test_what_does_not_exist_is_noticed(name):
    assert problem(name)


def test_a_missing_row_is_noticed():
    without = "\n".join(line for line in PAGE.splitlines() if not line.startswith("| Equation 23"))
    assert ("Equation", 23) in items(PAGE)
    assert ("Equation", 23) not in items(without)
