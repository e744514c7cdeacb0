"""`gaf table` as people run it: a table with the paper's numbers, its files, a price, and mistakes."""

import json
import os
import signal
import sys
import time

import pytest

from gaf.lab.cli.app import run
from gaf.lab.study import results
from gaf.lab.study.results import Filled
from gaf.lab.study.table.fill import fill
from gaf.lab.study.table.plan import make
from tests.forked import ROOT
from tests.lab.engine import processes
from tests.lab.study.grid_tasks import Here, HerePool

TINY = (
    *("table", "cifar-adam", "--models", "cifar10-resnet34", "--settings", "arctan(0.1, 20)"),
    *("--set", "task.data=digits", "--set", "task.data_options.limit=128"),
    *("--set", "batch_size=64", "--set", "epochs=1", "--set", "accelerator=cpu"),
)
TIMES = ("created", "command", "environment")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def table(folder):
    """The table in a folder, times aside."""
    found = results.read(folder, Filled).model_dump()
    return {key: value for key, value in found.items() if key not in TIMES}


def test_help_shows_an_example(capsys):
    assert run(["table", "--help"]) == 0
    assert "Example: gaf table" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["cifar"], "cifar100"),
        (["cifar100", "--models", "resnet51"], "did you mean 'resnet-50'"),
        (["cifar100", "--settings", "sigmoid"], "the table has no setting 'sigmoid'"),
        (["cifar100", "--seeds", "0"], "--seeds"),
        (["cifar-adam", "--placement", "update"], "f acts on gradient"),
        (["cifar100", "--set", "optimizer.placement=update"], "cannot be changed here"),
        (["cifar100", "--address", "a:1"], "--address is for --on ray"),
        (["cifar100", "--on", "ray", "--workers", "2"], "--workers is for this machine"),
        (["cifar100", "--on", "ray"], "needs Ray, which is not installed: pip install"),
        (["cifar100", "--set", "task.data_options.root=nowhere"], "cifar100 is not in nowhere"),
        (["cifar100", "--out", "file"], "file is not a folder"),
        (["cifar100", "--out", "."], "not empty and holds no table"),
    ],
)
def test_one_line_for_a_mistake(capsys, tmp_path, monkeypatch, args, complaint):
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    (tmp_path / "file").write_text("")
    assert run(["table", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert complaint in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]  # nothing was begun


def test_a_table_and_the_same_again(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("gaf.lab.study.pool.Pool", HerePool)
    assert run(list(TINY)) == 0
    out, err = capsys.readouterr()
    folder = tmp_path / "runs" / "table-cifar-adam"
    assert "94.36" in out
    assert "Not the paper's scale" in out
    assert "page: runs/table-cifar-adam/report.html" in out
    assert "Table III: its settings on digits" in out
    assert "Nothing learned here in 1 of 1 settings" in out  # after two steps
    assert "[3/3] small-cifar10-resnet34-adam" in err
    assert "\x1b" not in out + err
    files = {"table.json", "report.html", "table.md", "table.csv", "table.tex"}
    assert files <= {path.name for path in folder.iterdir()}
    first = table(folder)
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/finished.json")}
    assert len(kept) == 3
    assert run([*TINY, "--json"]) == 0
    out, err = capsys.readouterr()
    assert "3 of 3 runs were finished before" in err
    assert json.loads(out)["lines"][1]["paper"] == 94.36
    assert table(folder) == first
    assert kept == {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/finished.json")}
    page = folder / "report.html"
    before = page.read_text("utf-8")
    page.unlink()
    assert run(["report", "runs"]) == 0
    assert capsys.readouterr().out == "runs/table-cifar-adam/report.html\n"
    assert page.read_text("utf-8") == before
    assert run(["report", "runs/table-cifar-adam", "--format", "markdown"]) == 0
    assert capsys.readouterr().out == (folder / "table.md").read_text("utf-8")
    assert run(["report", "runs/table-cifar-adam", "--format", "table"]) == 0
    assert "94.36" in capsys.readouterr().out


def test_a_dry_run_trains_nothing(capsys, tmp_path):
    assert run([*TINY, "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "small-cifar10-resnet34-adam-arctan-0.1-20@gradient+control" in out
    assert "3 runs to train; 0 finished before." in out
    assert "to train" in out
    assert out.count("seed 0 ") == 3  # a bare 0 would read as none
    assert "timing a step of resnet34-cifar" in err
    assert run([*TINY, "--dry-run", "--seeds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["todo"] == 6
    assert [each["todo"] for each in found["runs"]] == [[0, 1]] * 3
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_what_data_is_missing(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GAF_DATA", str(tmp_path / "none"))
    args = ["table", "cifar-adam", "--models", "resnet34", "--settings", "arctan(0.1, 20)"]
    args += ["--set", "precision=bf16-mixed", "--set", "accelerator=cpu"]  # which nobody times
    assert run([*args, "--dry-run", "--json"]) == 0
    out, err = capsys.readouterr()
    missing = json.loads(out)["missing"]
    for name in ("cifar10", "cifar100"):
        line = f"{name} is not in {tmp_path / 'none'}; get it with: gaf data get {name}"
        assert line in missing
        assert f"gaf: {line}; the cost is that of training on the whole of it\n" in err
    subset = tmp_path / "none" / "cifar-100-subset" / "cifar-100-binary"
    subset.mkdir(parents=True)
    for name in ("train.bin", "test.bin"):
        (subset / name).write_bytes(b"")
    assert run([*args, "--dry-run"]) == 0
    assert f"the subset in {subset} takes its place" in capsys.readouterr().err


def wait_until(process, condition):
    """Patience for a machine that is busy with other things."""
    until = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.slow
def test_killed_or_stopped_it_goes_on(tmp_path):
    """SIGKILL of all its processes, then Ctrl-C, then to the end: the table is an undisturbed grid's."""
    folder, changes = tmp_path / "t", [*TINY[7::2], "checkpoint_every=1"]

    def start():
        more = ("--set", "checkpoint_every=1", "--seeds", "2", "--workers", "1")
        args = [*TINY, *more, "--out", str(folder)]
        return processes.start(args, cwd=ROOT, start_new_session=True)

    def finished():
        return {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/finished.json")}

    process = start()
    try:
        wait_until(process, finished)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kept = finished()
        assert len(kept) < 6
        process = start()
        wait_until(process, lambda: len(finished()) > len(kept))
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 130, err
        assert "resume with: gaf table" in err
        assert "not run" in (folder / "table.md").read_text()
        assert kept.items() <= finished().items()
        process = start()
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert kept.items() <= finished().items()
    finally:
        process.kill()
    chosen = {"models": ["cifar10-resnet34"], "settings": ["arctan(0.1, 20)"], "seeds": 2}
    fill(make("cifar-adam", **chosen, changes=changes), tmp_path / "calm", Here())
    assert table(folder) == table(tmp_path / "calm")
