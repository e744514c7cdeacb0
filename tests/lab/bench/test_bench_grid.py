"""`gaf bench --grid`, with very little to do. No test looks at how long anything took."""

import json

import pytest
from rich.console import Console

from gaf.lab.bench import grid, machine
from gaf.lab.cli.app import run


@pytest.mark.slow
def test_three_ways_are_measured_and_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(grid, "EPOCHS", 1)
    monkeypatch.setattr(grid, "RUNS_A_CORE", 1)
    path = tmp_path / "grid.json"
    assert run(["bench", "--grid", "--repeats", "2", "--json", str(path)]) == 0
    out = capsys.readouterr().out
    found = json.loads(path.read_text("utf-8"))
    assert list(found["ways"]) == [grid.ALONE, grid.BESIDE, grid.THREADED]
    for name, way in found["ways"].items():
        assert name in out
        assert way["speed"]["n"] == 2
        assert way["seconds"]["median"] > 0
    assert found["limit"] == 1.7


@pytest.mark.parametrize(
    ("speed", "others", "told"), [(1.71, 0.0, "reached"), (1.69, 0.3, "not reached")]
)
def test_the_verdict(capsys, speed, others, told):
    figures = {"median": 1.0, "p10": 0.9, "p90": 1.1, "n": 5}
    ways = {name: {"seconds": figures, "speed": figures} for name in (grid.ALONE, grid.THREADED)}
    ways[grid.BESIDE] = {"seconds": figures, "speed": {**figures, "median": speed}}
    facts = {**machine.facts(), "runs": 4, "cores": 2, "others": others}
    Console(width=150).print(grid.table({**facts, "ways": ways}))
    out = capsys.readouterr().out
    assert told in out
    assert ("not reached" in out) == (speed < 1.7)
    assert ("others took 30%" in out) == (others > 0)
