"""`gaf compare` as people run it: a table, a page, one line for a mistake, and kills that lose nothing."""

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gaf.lab.cli.app import run
from gaf.lab.study import words
from gaf.lab.study.compare import read
from tests.forked import ROOT
from tests.lab.engine import processes
from tests.lab.study.grid_tasks import KIND, HerePool, comes

F = "arctan(0.1, 20)@momentum"
TINY = (
    *("compare", KIND, "--seeds", "2", "--settings", "arctan(0.1, 20), adam"),
    *("--set", "epochs=3", "--set", "batch_size=16", "--set", "accelerator=cpu"),
)
TIMES = ("created", "command", "environment", "seconds_per_step")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the current folder


def table(folder):
    """The comparison in a folder, times aside."""
    comparison = read(folder)
    assert comparison.cost is not None
    return {
        **{k: v for k, v in comparison.model_dump().items() if k not in (*TIMES, "rows")},
        "cost": comparison.cost.model_dump(exclude={"seconds"}),
        "rows": [
            {k: v for k, v in row.model_dump().items() if k not in TIMES} for row in comparison.rows
        ],
    }


def test_help_shows_an_example(capsys):
    assert run(["compare", "--help"]) == 0
    assert "Example: gaf compare" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--settings", "adma"], "unknown setting 'adma'; did you mean 'adam'"),
        (["digits-cnn-sgd"], "unknown recipe 'digits-cnn-sgd'; did you mean"),
        (["nowhere:make"], "the task nowhere:make cannot be imported"),
        (["--seeds", "0"], "--seeds"),
        (["--seeds", "1000000000"], "'--seeds': Input should be less than or equal to 1000"),
        (["--workers", "1000000000"], "'--workers': Input should be less than or equal to 1024"),
        (["digits-cnn-sgdm", "--set", "seed=2147483647"], "seed should be at most 2147483647"),
        (["--settings", "adam(1e300)"], "the setting 'adam(1e300)': lr should be at most"),
        (
            [
                *(
                    "digits-cnn-sgdm",
                    "--set",
                    "optimizer.name=adam",
                    "--set",
                    "optimizer.momentum=0",
                ),
                *("--set", "optimizer.eps=1e10", "--settings", "arctan(1e-18, 1e-18)"),
            ],
            "has no matched control: its eps should be at most",
        ),
        (["digits-cnn-sgdm", "--set", "optimizer.lrr=1"], "did you mean 'optimizer.lr'"),
        (["digits-cnn-sgdm", "--set", "devices=2"], "one device"),
        (["digits-cnn-sgdm", "--out", "file"], "file is not a folder"),
        (["digits-cnn-sgdm", "--out", "."], "not empty and holds no comparison"),
        (["--what"], "No such option"),
        (["--rates", "1"], "a curve has 2 to 100 learning rates, not 1"),
        (["--tuning-seeds", "0"], "a learning rate is tried on 1 to 1000 seeds, not on 0"),
        (["--within", "0"], "a window reaches 0 to 100 points below the best, not 0.0"),
        (["--rates", "3", "--at-given-rate"], "--at-given-rate tunes nothing: leave out --rates"),
    ],
)
def test_one_line_for_a_mistake(capsys, tmp_path, args, complaint):
    (tmp_path / "file").write_text("")
    assert run(["compare", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert complaint in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]  # nothing was begun


def test_a_comparison_and_the_same_again(capsys, tmp_path, monkeypatch):
    """A table, verdicts and a page; the second time from what is there; one seed crashes in both."""
    monkeypatch.setattr("gaf.lab.study.pool.Pool", HerePool)
    args = [*TINY, "--at-given-rate", "--set", "task.options.crash=1", "--seeds", "3"]
    assert run(args) == 0
    out, err = capsys.readouterr()
    folder = tmp_path / "runs" / "compare-tests.lab.study.grid_tasks-Trouble"
    assert "grid_tasks-Trouble: 12 runs for the table\n" in err
    assert "RuntimeError: a crash" in err
    assert f"{F}: " in out
    assert "1 of 3 runs failed" in out
    assert f"page: {Path('runs/compare-tests.lab.study.grid_tasks-Trouble/report.html')}" in out
    assert "\x1b" not in out + err  # no table that moves, no colours in a pipe
    first = table(folder)
    finished = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/finished.json")}
    assert len(finished) == 2 * 4  # baseline, f, its control, adam
    assert run([*args, "--json"]) == 0
    out, err = capsys.readouterr()
    assert "8 of 12 runs were finished before" in err
    found = json.loads(out)
    assert [row["setting"] for row in found["rows"]] == ["sgd", F, f"control({F})", "adam"]
    assert table(folder) == first
    assert finished == {
        path: path.stat().st_mtime_ns for path in folder.glob("runs/*/finished.json")
    }


def test_every_rule_is_tuned_and_the_answer_comes_first(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("gaf.lab.study.pool.Pool", HerePool)
    args = [*TINY, "--rates", "3", "--tuning-seeds", "1", "--within", "5", "--out", "here"]
    assert run(args) == 0
    out, err = capsys.readouterr()
    planned = "at least 9 trials to tune the learning rates, then 12 runs for the table"
    assert f"Trouble: {planned}\n" in err
    assert "Trouble: tuning, 3 learning rates\n" in err
    assert "Trouble: final\n" in err
    comparison = read(tmp_path / "here")
    assert comparison.tuning is not None
    assert (comparison.tuning.rates, comparison.tuning.seeds) == (3, (1000,))
    assert [row.setting for row in comparison.rows] == ["sgd", F, "adam"]
    assert all(row.second_rate for row in comparison.rows)
    assert out.index(words.answer(comparison)) < out.index("over the learning rate")
    assert out.index("over the learning rate") < out.index("Windows") < out.index("Cost: ")
    assert run([*args, "--json"]) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert next(iter(record)) == "answer"
    assert record["answer"] == words.answer(comparison)
    assert set(record["tuning"]["curves"]) == {"sgd", F, "adam"}
    assert "12 of 12 runs were finished before" in err
    assert run(["report", "here", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["lr"]) for row in rows] == [row.rate for row in comparison.rows]


def arguments(folder):
    return [
        *TINY,
        "--rates",
        "2",
        "--tuning-seeds",
        "1",
        "--seeds",
        "3",
        "--out",
        str(folder),
        "--set",
        "task.options.pause=0.02",
    ]


def start(folder, workers):
    # a session of its own, so that the whole tree can be killed at once
    args = [*arguments(folder), "--workers", str(workers)]
    return processes.start(args, cwd=ROOT, start_new_session=True)


def finished(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/finished.json")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The table of a comparison that nobody disturbed, made in this process."""
    folder = tmp_path_factory.mktemp("whole") / "c"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gaf.lab.study.pool.Pool", HerePool)
        assert run(arguments(folder)) == 0
    return table(folder)


@pytest.mark.slow
def test_killed_or_stopped_it_goes_on_and_gives_the_same_table(whole, tmp_path):
    """SIGKILL of the whole tree, then of the parent alone, whose process still saves when the next comes,
    then Ctrl-C, then to the end.
    """
    folder, kept = tmp_path / "c", {}
    for kill, workers in ((os.killpg, 2), (os.kill, 1)):
        process = start(folder, workers)
        goal = len(kept) + 2
        assert comes(process, lambda goal=goal: len(finished(folder)) >= goal)
        time.sleep(0.15)  # into the next run
        kill(process.pid, signal.SIGKILL)
        process.communicate()
        now = finished(folder)
        assert kept.items() <= now.items()
        kept = now
    process = start(folder, workers=1)
    goal = len(kept) + 1
    assert comes(process, lambda: len(finished(folder)) >= goal)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert "resume with: gaf compare" in err
    assert "Traceback" not in err
    assert out == ""
    assert list(folder.glob("runs/*/checkpoints/*"))
    assert kept.items() <= finished(folder).items()
    kept = finished(folder)
    process = start(folder, workers=1)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "failed" not in err
    assert "runs were finished before" in err
    assert kept.items() <= finished(folder).items()  # no finished run was repeated
    assert table(folder) == whole


@pytest.mark.slow
def test_kills_of_any_process_at_ten_random_moments_change_nothing(whole, tmp_path):
    """The command or one of its workers: a worker is replaced, after the command the same one goes on."""
    moments, folder = random.Random(20), tmp_path / "c"
    process = start(folder, workers=2)
    for _ in range(10):
        time.sleep(moments.uniform(0.2, 3.0))
        tree = [process.pid, *children(process.pid)]
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(moments.choice(tree), signal.SIGKILL)
        time.sleep(0.2)
        if process.poll() is not None:
            process.communicate()
            process = start(folder, workers=2)
    _, err = process.communicate(timeout=300)
    if process.returncode:  # it was the last one that was killed
        _, err = start(folder, workers=2).communicate(timeout=300)
    assert "Traceback" not in err
    assert table(folder) == whole


def children(pid):
    """Those of a process, by what the system lists."""
    out = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(line) for line in out.stdout.split()]


def test_nothing_learned_is_said_in_the_table_and_at_the_top_of_the_page(
    capsys, monkeypatch, tmp_path
):
    """The deep perceptron, whose gradient vanishes: plain SGD stays at chance."""
    monkeypatch.setattr("gaf.lab.study.pool.Pool", HerePool)
    command = ["compare", "digits-deep-mlp-sgd", "--settings", "centralize", "--seeds", "2"]
    command.append("--at-given-rate")
    quick = ["--set", "iterations=2", "--set", "epochs=null", "--set", "accelerator=cpu"]
    assert run([*command, *quick, "--out", "here"]) == 0
    out = capsys.readouterr().out
    chance = read(tmp_path / "here").chance
    assert 0.1 < chance < 0.21  # the most frequent of ten digits in 359 test images, and some luck
    sentence = (
        "Nothing learned here: no run of sgd has a better top1 than a guess that does not look at the "
        f"input, {chance:.4f}"
    )
    assert sentence in out
    assert "baseline, nothing learned here" in out
    assert "no difference" not in out.lower()
    page = (tmp_path / "here" / "report.html").read_text("utf-8")
    assert 0 < page.index(sentence) < page.index('class="headline"')
    assert "1 at chance" in page
    rows = read(tmp_path / "here").rows
    assert [(row.verdict, row.steps_to_baseline) for row in rows] == [
        *(("baseline", None), ("nothing learned", None)),
    ]
    assert run(["report", "here", "--format", "markdown"]) == 0
    assert "nothing learned here" in capsys.readouterr().out
    runs = sorted(map(str, (tmp_path / "here" / "runs").glob("[0-9a-f]*")))
    assert run(["report", *runs, "--format", "table"]) == 0
    assert "Nothing learned here" in capsys.readouterr().out
