"""`gaf bench --detection`, with very little to do. No test looks at how long anything took."""

import json

import pytest
from rich.console import Console

from gaf.lab.bench import detection, machine
from gaf.lab.cli.app import run
from gaf.lab.study.recipes import tables


@pytest.mark.slow
def test_both_figures_are_measured_and_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tables, "VOC_WIDTH", 0.03125)
    monkeypatch.setattr(tables, "VOC_BATCH", 1)
    path = tmp_path / "detection.json"
    assert run(["bench", "--detection", "--repeats", "2", "--json", str(path)]) == 0
    out = capsys.readouterr().out
    found = json.loads(path.read_text("utf-8"))
    for name in (detection.STEP, detection.LOSS, detection.DETECT):
        assert name in out
        assert found["seconds"][name]["median"] > 0
    assert found["share"]["n"] == 2
    assert found["limits"] == {"share": 0.1, "seconds": 0.1}


@pytest.mark.parametrize(
    ("share", "seconds", "told"),
    [(0.1, 0.099, ["reached"] * 2), (0.11, 0.1, ["not reached"] * 2)],
)
def test_the_verdict(capsys, share, seconds, told):
    figures = {"median": 1.0, "p10": 0.9, "p90": 1.1, "n": 5}
    times = dict.fromkeys((detection.STEP, detection.LOSS), figures)
    times[detection.DETECT] = {**figures, "median": seconds}
    facts = {**machine.facts(), "others": 0.0}
    found = {**facts, "width": 0.125, "batch": 8, "seconds": times}
    Console(width=150).print(detection.table({**found, "share": {**figures, "median": share}}))
    lines = capsys.readouterr().out.splitlines()
    verdicts = [
        line.rpartition("ms" if "suppression" in line else "10%")[2].strip(" │")
        for line in lines
        if detection.LOSS in line or detection.DETECT in line
    ]
    assert verdicts == told
