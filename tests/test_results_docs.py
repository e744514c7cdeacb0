"""Tables and differences in the pages are those of results/, and every comparison there is told in a page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.auto import acceptance
from benchmarks.auto.acceptance_plan import PROBLEMS, Margin
from docs import in_backward, speed, spikes
from docs.family import PAGE, written
from docs.results import MARKED, filled, table

from tests import compat

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
MARKED_PAGES = [page for page in PAGES if MARKED.search(page.read_text("utf-8"))]


def test_there_are_marked_tables():
    assert len(MARKED_PAGES) >= 1


@pytest.mark.parametrize("page", MARKED_PAGES, ids=lambda page: page.stem)
def test_the_tables_are_those_of_the_results(page):
    text = page.read_text("utf-8")
    assert filled(text) == text, "run: python docs/results.py"


def test_a_wrong_number_is_noticed():
    right = table(ROOT / "results" / "text", 3)
    page = "<!-- results/text, 3 digits -->\n\n" + right
    assert filled(page) == page
    assert filled(page.replace("3.612", "3.611")) == page
    marker = "<!-- results/text: auto@gradient minus tuned, 3 digits -->\n"
    line = "`auto@gradient` minus `tuned`: −0.145 [−0.199, −0.090], 5 seeds.\n"
    assert filled(marker + "anything\n") == marker + line


@pytest.mark.parametrize(
    "file", sorted(ROOT.glob("results/**/comparison.json")), ids=lambda file: file.parent.name
)
def test_every_comparison_is_told_and_has_provenance_and_no_path_of_a_machine(file):
    found = json.loads(file.read_text("utf-8"))
    assert found["command"][:1] == ["gaf"]
    assert found["environment"]["versions"]["torch"]
    assert not any(word.startswith("/") for word in found["command"])
    name = str(file.parent.relative_to(ROOT))
    assert any(name in page.read_text("utf-8") for page in PAGES), f"no page tells of {name}"


def test_the_page_of_the_family_is_that_of_its_data():
    text = PAGE.read_text("utf-8")
    assert written(text) == text, "run: python docs/family.py"
    assert text.count("| `adam-atan2` |") == 2


@pytest.mark.parametrize("script", [spikes, in_backward], ids=["spikes", "in_backward"])
def test_pages_of_experiments_are_those_of_their_records(script):
    text = script.PAGE.read_text("utf-8")
    assert script.written(text) == text, f"run: python docs/{script.__name__.split('.')[-1]}.py"
    changed = text.replace("| `", "| 9`")
    assert script.written(changed).count("| 9`") < changed.count("| 9`")
    record = json.loads(script.RECORD.read_text("utf-8"))
    assert record["command"] == f"python docs/{script.__name__.split('.')[-1]}.py --measure"
    assert record["torch"]
    assert record["git"]


@pytest.mark.parametrize("page", speed.PAGES, ids=lambda page: page.stem)
def test_the_tables_of_speed_are_those_of_the_records(page):
    text = page.read_text("utf-8")
    assert speed.TABLE.search(text)
    assert speed.written(text) == text, "run: python docs/speed.py"
    assert speed.written(text.replace("torch's fused SGD | ", "torch's fused SGD | 9")) == text


def test_the_page_of_machines_is_that_of_its_record():
    text = compat.PAGE.read_text("utf-8")
    assert compat.written(text) == text, "run: make compat RECORD=--record"
    rows = json.loads(compat.RECORD.read_text("utf-8"))
    assert not [row for row in rows if row["failed"]]


def test_a_run_on_other_versions_is_kept_in_the_place_of_an_earlier_one(tmp_path, monkeypatch):
    monkeypatch.setattr(compat, "RECORD", tmp_path / "compat.json")
    monkeypatch.setattr(compat, "PAGE", tmp_path / "machines.md")
    compat.PAGE.write_text("<!-- results/compat.json: core -->\n\nAfter.\n", "utf-8")
    row = {"suite": "core", "python": "3.11.7", "date": "2026-01-01", "failed": 0}
    for torch, passed in (("2.10.0", 7), ("2.6.0", 5), ("2.6.0", 6)):
        compat.record({**row, "torch": torch, "passed": passed, "skipped": {"no Muon": 2}})
    assert compat.PAGE.read_text("utf-8").splitlines()[4:] == [
        "| 2.6.0 | 3.11.7 | 6 | 0 | 2 | 2026-01-01 |",
        "| 2.10.0 | 3.11.7 | 7 | 0 | 2 | 2026-01-01 |",
        "",
        "After.",
    ]


def test_the_acceptance_of_auto_is_that_of_its_records():
    text = acceptance.PAGE.read_text("utf-8")
    assert len(acceptance.TABLE.findall(text)) == len(acceptance.TABLES) + 2
    assert acceptance.written(text) == text, "run: python -m benchmarks.auto.acceptance"
    changed = text.replace("| `sgd + auto", "| `9sgd + auto")
    assert changed != text
    assert acceptance.written(changed) == text


COMPLETE = [name for name in PROBLEMS if acceptance.complete(name, *PROBLEMS[name].rules)]


@pytest.mark.parametrize("name", COMPLETE)
def test_the_acceptance_has_every_seed_and_its_machine(name):
    problem, records = PROBLEMS[name], acceptance.recorded(name)
    for rule in problem.rules:
        for rate in acceptance.rates(name, rule):
            runs = acceptance.finals(name, rule, rate)
            assert [run.seed for run in runs] == [*range(problem.seeds)], (rule, rate)
    lines = map(json.loads, records.path.read_text("utf-8").splitlines())
    machines = [line["machine"] for line in lines if line["kind"] == "machine"]
    assert machines
    assert all(machine["versions"]["torch"] and machine["git"] for machine in machines)


def test_a_margin_is_on_the_side_of_a_loss_unless_it_is_on_both():
    points = Margin("", ("digits", ""), ("digits", ""), 0.01)
    bits = Margin("", ("text", ""), ("text", ""), 0.05)
    assert acceptance.within(points, -0.009, 0.02)
    assert not acceptance.within(points, -0.011, 0.0)
    assert acceptance.within(bits, -0.2, 0.04)
    assert not acceptance.within(bits, 0.0, 0.06)
    assert not acceptance.within(replace(points, both_sides=True), 0.0, 0.02)
    assert not acceptance.within(replace(bits, both_sides=True), -0.06, 0.0)
    assert acceptance.within(replace(bits, both_sides=True), -0.04, 0.04)
