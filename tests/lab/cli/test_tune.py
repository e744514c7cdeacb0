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
    "--candidates",
    2,
    "--seeds",
    2,
    "--tuning-seeds",
    1,
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
        ("no-such-recipe",): "unknown recipe",
        ("--task", "nonsense"): "is not MODULE:FUNCTION",
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


def test_ctrl_c_outside_of_the_runs_is_one_line(tune, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gaf.lab.study.tune.tune.probe", stopped)
    status, _, err = tune("--task", KIND)
    assert status == 130
    assert err.splitlines()[-1].startswith("gaf: stopped; resume with: gaf")


@pytest.mark.slow
def test_it_tunes_explains_and_goes_on(tune, tmp_path):
    status, out, err = tune(*SMALL, "--out", "first", "--json")
    assert status == 0, err
    tuned = json.loads(out)
    names = [each["name"] for each in tuned["candidates"]]
    assert tuned["recommended"]["name"] == names[0]
    assert len(names) == 2
    compared = read(tmp_path / "first" / "comparison")
    curves = compared.tuning.curves
    assert {"sgd", *names} == set(curves)  # all are tuned
    winner = tuned["winner"]["name"]
    assert [row.setting for row in compared.rows] == ["sgd", winner]  # one goes to the final
    best = {name: max(trial.mean for trial in curves[name].trials) for name in names}
    assert winner in [name for name in names if best[name] >= max(best.values()) - 0.1]
    f = eval(tuned["line"].partition("activation=")[2].partition(", placement")[0], {"gaf": gaf})
    assert gaf.parse(winner.partition("@")[0]) == f
    assert f"lr={compared.row(winner).rate:g}" in tuned["line"]
    assert tuned["verdict"] in (tmp_path / "first" / PAGE).read_text("utf-8")

    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("finished.json")}
    status, out, err = tune(*SMALL, "--out", "first")  # everything is found finished
    assert status == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("finished.json")} == before
    assert tuned["verdict"] in " ".join(out.split())
    assert str(Path("first") / PAGE) in out


def test_a_verdict_that_nothing_helps_has_no_line(capsys, tmp_path):
    tuned = read_file(ROOT / "results" / "tune" / "tune.json", Tuned)
    assert tuned.helps
    verdict = "No candidate beats the baseline."
    nothing = tuned.model_copy(update={"helps": False, "verdict": verdict, "line": "gaf"})
    command.show(nothing, tmp_path / PAGE)
    out = capsys.readouterr().out
    assert "No candidate beats the baseline." in out
    assert "\ngaf\n" not in out
    command.show(nothing.model_copy(update={"helps": True}), tmp_path / PAGE)
    assert "\ngaf\n" in capsys.readouterr().out
