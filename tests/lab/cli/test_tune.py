"""`gaf tune` as people run it, on a task that takes no time."""

import json
from pathlib import Path

import pytest

import gaf
from gaf.lab.cli import tune as command
from gaf.lab.cli.app import run
from gaf.lab.engine.config import read_file
from gaf.lab.reports.page import PAGE
from gaf.lab.study import pool
from gaf.lab.study.compare import read
from gaf.lab.study.results import Tuned
from tests.forked import ROOT
from tests.lab.engine.tiny import KIND
from tests.lab.study.grid_tasks import HerePool


@pytest.fixture
def tune(capsys, tmp_path, monkeypatch):
    """Run the command in this process and an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "Pool", HerePool)

    def call(*args):
        status = run(["tune", *map(str, args)])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return call


SMALL = (
    "--task",
    KIND,
    "--set",
    "iterations=20",
    "--set",
    "batch_size=16",
    "--budget",
    "12 epochs",
)


def test_help_shows_an_example(tune):
    status, out, _ = tune("--help")
    assert status == 0
    assert "Example: gaf tune" in out
    assert "--json" in out


RMSPROP = ("--set", "optimizer.name=rmsprop", "--set", "optimizer.momentum=0")


def test_bad_input_is_one_sentence_and_exit_status_2(tune, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    calls = {
        ("--settings", "adam"): "add --check",
        ("--check", 3, "--settings", "adma"): "did you mean",
        ("no-such-recipe",): "unknown recipe",
        ("--task", "nonsense"): "is not MODULE:FUNCTION",
        ("--budget", "much"): "a budget is like",
        ("--budget", "3 parsecs"): "epochs or minutes",
        ("--task", KIND, "--budget", "2 epochs"): "too small for one race",
        ("--task", KIND, "--set", "task.options.explode=0.5"): "is nan at the first step",
        ("--task", KIND, *RMSPROP): "placements and controls of torch.optim:RMSprop are not known",
        ("--task", KIND, "--out", "full"): "holds no tuning",
        (KIND, "--out", "full"): "holds no tuning",
        (KIND, "--task", KIND): "or a recipe's name with --task",
    }
    for args, says in calls.items():
        status, out, err = tune(*args)
        assert (status, out) == (2, ""), args
        last = err.splitlines()[-1]
        assert last.startswith("gaf: "), args
        assert says in last, (args, last)


def test_ctrl_c_outside_of_the_races_is_one_line(tune, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gaf.lab.study.tune.tune.probe", stopped)
    status, _, err = tune("--task", KIND)
    assert status == 130
    assert err.splitlines()[-1].startswith("gaf: stopped; go on with: gaf")


@pytest.mark.slow
def test_it_tunes_explains_and_goes_on(tune, tmp_path):
    status, out, err = tune(*SMALL, "--out", "first", "--json")
    assert status == 0, err
    found = json.loads(out)
    cost = found["cost"]
    # counted again, from what the runs themselves recorded
    runs = [
        json.loads(path.read_text())
        for path in (tmp_path / "first" / "runs").glob("*/finished.json")
    ]
    assert cost["steps"] == cost["probe"] + sum(each["steps"] for each in runs)
    assert cost["in_full"] == cost["candidates"] * 5 * 20
    assert cost["steps"] <= 0.1 * cost["in_full"]
    assert cost["first"] >= 0.2 * 20
    names = [each["name"] for each in found["raced"]]
    assert {"arctan(0.1, 20)@momentum", "arctan(0.2, 10)@momentum"} <= set(names)
    assert len(names) == len(set(names)) == cost["candidates"]
    assert {each["source"] for each in found["raced"]} >= {
        "recommended",
        "neighbour found by Optuna",
    }
    control = found["against"][1]["name"]
    assert control == f"control({found['winner']['name']})"
    assert found["against"][0]["n"] == 5
    f = eval(found["line"].partition("activation=")[2].partition(", placement")[0], {"gaf": gaf})
    assert gaf.parse(found["winner"]["name"].partition("@")[0]) == f
    page = (tmp_path / "first" / PAGE).read_text("utf-8")
    assert found["verdict"].partition(" has")[0] in page

    status, out, err = tune(*SMALL, "--out", "first", "--json")  # everything is found finished
    again = json.loads(out)
    assert [each["name"] for each in again["raced"]] == names
    assert again["cost"]["steps"] == cost["steps"]
    status, out, _ = tune(*SMALL, "--out", "first", "--check", 2, "--settings", "adam(0.01)")
    assert status == 0
    assert f"of running all {cost['candidates']} candidates in full" in out
    assert found["verdict"].split()[0] in out
    checked = read(tmp_path / "first" / "check")
    assert checked.seeds == (0, 1)
    assert {found["winner"]["name"], control, "adam(0.01)"} < {row.setting for row in checked.rows}
    assert str(Path("first") / "check" / PAGE) in out


def test_a_verdict_that_nothing_helps_has_no_line(capsys, tmp_path):
    tuned = read_file(ROOT / "results" / "tune" / "hard-case.json", Tuned)
    assert tuned.helps
    verdict = "No candidate beats the baseline."
    nothing = tuned.model_copy(update={"helps": False, "verdict": verdict, "line": "gaf"})
    command.show(nothing, tmp_path / PAGE)
    out = capsys.readouterr().out
    assert "No candidate beats the baseline." in out
    assert "\ngaf\n" not in out
    command.show(nothing.model_copy(update={"helps": True}), tmp_path / PAGE)
    assert "\ngaf\n" in capsys.readouterr().out
