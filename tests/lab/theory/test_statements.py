"""The statements as data, the words made of them, and the page that is committed."""

import json
import re
import runpy
import types
from pathlib import Path

import pytest

from gaf.lab.theory.practice import QUADRATICS, Practice
from gaf.lab.theory.statements import STATEMENTS, CountedClaim, Findings, Measurement, find
from gaf.lab.theory.statements.findings import (
    SUMMARY,
    cell,
    detail,
    percent,
    practice_in_short,
    summary_rows,
)
from gaf.lab.theory.statements.page import page
from gaf.lab.theory.trials import Count, Dropped

ROOT = Path(__file__).resolve().parents[3]
QUADRATIC = next(iter(QUADRATICS))
PAGE = ROOT / "docs" / "theory.md"
CHECK = types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "check.py")))


def findings(failures=0):
    """One made up, with everything in it."""
    dropped = (
        Dropped("|g| < ε", 12, 3, "w = 1", "Because."),
        Dropped("k", 0, 0, "", "There is none."),
    )
    sound = Count(10_000, failures, "g = 7" if failures else "")
    rows = tuple(
        Practice(name, "on paper", 162, {"|g| < ε": share}, share, claim)
        for name, share, claim in ((QUADRATIC, 0.0, 0.0), ("other", 0.125, None))
    )
    table = Measurement(
        "Sizes", ("name", "size"), (("a|b", 0.12345), ("c", None), ("d", 12_345)), "A note."
    )
    return Findings(
        (CountedClaim("x < y*z", sound, Count(11_000, 5, "g = 0"), dropped),), rows, (table,)
    )


def test_all_statements_of_the_paper_are_there():
    names = [statement.name for statement in STATEMENTS]
    assert names == ["definition-1", "lemma-1", "lemma-2", *(f"theorem-{n}" for n in range(1, 7))]
    for statement in STATEMENTS:
        assert all((statement.printed, statement.sound, statement.checked, statement.assumed))


def test_statements_are_found_by_name():
    assert find("theorem-3") is find("Theorem 3") is STATEMENTS[5]
    with pytest.raises(
        ValueError, match="no statement 'theorem-7'; there are definition-1, lemma-1"
    ):
        find("theorem-7")


@pytest.mark.parametrize("name", ["lemma-1", "lemma-2", "theorem-5"])
def test_checks_find_nothing_inside_the_assumptions(name):
    statement = find(name)
    found = statement.check(3)
    (part,) = found.parts
    assert found.violations == 0
    assert part.sound.cases >= 10_000
    assert tuple(each.assumption for each in part.dropped) == statement.assumed
    json.dumps(statement.record(found))


def test_a_violation_is_never_hidden():
    broken = findings(failures=2)
    assert broken.violations == 2
    assert "10,000 cases, 2 violations\n    first: g = 7" in detail(STATEMENTS[0], broken)
    assert summary_rows([(STATEMENTS[0], broken)])[0][2:4] == ("10,000", "2")
    text = page([(STATEMENTS[0], broken)], 0)
    assert "Inside the assumptions: 10,000 cases, **2 violations**. The first: g = 7." in text
    assert STATEMENTS[0].record(broken)["violations"] == 2


def test_words():
    (row,) = summary_rows([(STATEMENTS[3], findings())])
    assert len(row) == len(SUMMARY)
    assert row[0] == "Theorem 1"
    assert row[4:] == ("11,000", "5", "1 of 2", "at most 12 % (other), on quadratics never")
    assert practice_in_short(findings().practice[:1]) == "never, on 1 problems"
    assert practice_in_short(()) == ""
    assert [percent(x) for x in (0.0, 0.004, 0.5, 0.996, 1.0, None)] == [
        *("0 %", "< 1 %", "50 %", "> 99 %", "100 %", "–")
    ]
    assert [cell(x) for x in (None, 0.12345, 12_345, "a")] == ["–", "0.123", "12,345", "a"]
    text = detail(STATEMENTS[3], findings())
    assert "without “|g| < ε”: false in 3 of 12 random cases\n    w = 1. Because." in text
    assert "without “k”: no random cases\n    There is none." in text
    assert f"{QUADRATIC}, on paper\n    all 0 %, claim true 0 % (|g| < ε: 0 %)" in text


def test_markdown_keeps_its_tables():
    text = page([(STATEMENTS[3], findings())], 0)
    assert r"| \|g\| &lt; ε | 12 | 3 | w = 1. Because. |" in text
    assert r"| a\|b | 0.123 |" in text
    assert r"x &lt; y\*z" in text
    for block in text.split("\n\n"):
        rows = [line.replace(r"\|", "") for line in block.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1, block


def test_python_of_the_page_runs():
    for first_line, code in CHECK.python_blocks(PAGE.read_text("utf-8")):
        exec(CHECK.compile_block(code, first_line, PAGE), {})


def _apart(text):
    """Words, and numbers: counts over random cases may differ by a few on another CPU."""
    number = r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
    return re.sub(number, "#", text), re.findall(number, text)


def _value(number):
    return float(number.replace(",", ""))


@pytest.mark.slow
def test_the_page_is_what_the_command_gives():
    """Every check from seed 0. To write it anew: gaf theory --markdown > docs/theory.md."""
    results = [(statement, statement.check(0)) for statement in STATEMENTS]
    words, numbers = _apart(page(results, 0))
    written, figures = _apart(PAGE.read_text("utf-8"))
    assert words == written
    assert len(numbers) == len(figures)
    for found, figure in zip(numbers, figures, strict=True):
        counted = found.isdigit() and figure.isdigit()
        assert _value(found) == pytest.approx(_value(figure), rel=0.05, abs=3 if counted else 0)
    for statement, found in results:
        assert found.violations == 0
        assert all(part.sound.cases >= 10_000 for part in found.parts if part.sound)
        dropped = [each.assumption for part in found.parts for each in part.dropped]
        assert tuple(dropped) == statement.assumed
        json.dumps(statement.record(found))
