"""Processes that train: they serve many runs, are replaced when they die, and do not outlive who asked."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import pytest
import torch

from gaf.common.files import DiskFull
from gaf.lab.engine.config import override
from gaf.lab.engine.run import train
from gaf.lab.study import recipes
from gaf.lab.study.grid import digest, run_grid
from gaf.lab.study.pool import LOG, Job, Pool, ask, cores, end, gpus, slots
from tests.forked import ENVIRONMENT, ROOT
from tests.lab.engine.tiny import assert_same_run
from tests.lab.study.grid_tasks import base, comes, run_folder


def seeds(*numbers, **options):
    return [base(f"seed={number}", **options) for number in numbers]


@pytest.mark.slow
def test_one_process_serves_many_runs_and_each_is_as_if_alone(tmp_path):
    """A crash among them included: what is printed and raised is in the log, not between the answers."""
    configs = [*seeds(0, dropout=0.3), *seeds(1, crash=1), *seeds(1, dropout=0.3)]
    told = []

    class Spy(Pool):
        def submit(self, config, folder, seen):
            return super().submit(config, folder, lambda *how_far: told.append(how_far))

    with Spy(1, tmp_path / "runs" / LOG) as pool:
        found = list(run_grid(configs, tmp_path / "runs", pool).values())
        assert len(pool._processes) == 1
    assert [each.error for each in found] == ["", "RuntimeError: a crash of this seed", ""]
    assert "Traceback" in (tmp_path / "runs" / LOG).read_text()
    assert (0, 15) in told
    for config, outcome in zip(configs, found, strict=True):
        if outcome.result is not None:
            train(config, tmp_path / f"alone-{config.seed}")
            assert_same_run(outcome.folder, tmp_path / f"alone-{config.seed}")
    assert [p.returncode is not None for p in pool._processes.values()] == [True]


@pytest.mark.slow
def test_runs_whose_data_is_read_by_processes(data_dir, tmp_path):
    """They are forked from one whose thread waits for the next run, and must not wait for it."""
    quick = (
        *("epochs=null", "iterations=1", "batch_size=2", "threads=1", "accelerator=cpu"),
        *("task.data_options.limit=2", "task.data_options.workers=1"),
        *("task.model_options.width=0.03125", f"task.data_options.root={data_dir}"),
    )
    config = override(recipes.get("small-voc-ssd300-sgdm"), quick)
    with Pool(1, tmp_path / LOG) as pool:
        found = pool.submit(config, tmp_path / "run", lambda *_: None)
        found.result(timeout=120)
    assert (tmp_path / "run/finished.json").is_file()


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced_and_its_run_goes_on(tmp_path, monkeypatch):
    """One that always kills its process before its first checkpoint fails, and the others finish; one that
    gets further each time comes to its end.
    """
    monkeypatch.setattr("gaf.lab.study.pool.ATTEMPTS", 2)  # each takes the start of a process
    once = tmp_path / "died"
    killed = [*seeds(1, die=1, once=str(once)), *seeds(2, die=2, at=3)]
    configs = [*seeds(0), *killed, *seeds(3)]
    with Pool(1, tmp_path / LOG) as pool:
        found = run_grid(configs, tmp_path / "runs", pool)
    assert once.exists()
    errors = [found[digest(config)].error for config in configs]
    assert errors[0] == errors[1] == errors[3] == ""
    assert errors[2] == "the process died 2 times, at last with status -9"
    ran, alone = found[digest(configs[1])], tmp_path / "alone"
    assert (ran.folder / "metrics.jsonl").stat().st_size > 0
    assert ran.result.final == pytest.approx(train(seeds(1)[0], alone).final, abs=0)
    resumed = (ran.folder / "environment.json").read_text().count('"began"')
    assert resumed == 2  # begun once, gone on with once


@pytest.mark.slow
def test_a_process_makes_a_checkpoint_and_goes_when_its_parent_is_killed(tmp_path):
    """SIGKILL, which nobody can answer: the pipe tells. The run then goes on from there."""
    code = (
        "from pathlib import Path\n"
        "from gaf.lab.study.grid import run_grid\n"
        "from gaf.lab.study.pool import Pool\n"
        "from tests.lab.study.grid_tasks import base\n"
        f"pool = Pool(1, Path({str(tmp_path / LOG)!r}))\n"
        f"run_grid([base('epochs=100000', pause=0.01)], Path({str(tmp_path / 'runs')!r}), pool)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], env=ENVIRONMENT, cwd=ROOT)
    folder = run_folder(base("epochs=100000", pause=0.01), tmp_path / "runs")
    assert comes(parent, lambda: list(folder.glob("checkpoints/step-*")))
    worker = children(parent.pid)
    assert len(worker) == 1
    parent.kill()
    parent.wait()
    until = time.monotonic() + 120
    while os.path.exists(f"/proc/{worker[0]}") and time.monotonic() < until:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{worker[0]}")
    steps = sorted(int(path.name[5:]) for path in folder.glob("checkpoints/step-*"))
    assert steps[-1] > 0


def children(pid):
    """The processes that a process started."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True
    )
    return [int(each) for each in listed.stdout.split()]


def test_stopping_before_anything_ran(tmp_path):
    with Pool(2, tmp_path / LOG) as pool:
        pass
    assert pool._processes == {}


def test_stopping_while_a_process_starts(tmp_path, monkeypatch):
    """The signal went to those there were: what was not among them is not asked for a run."""
    pool, signalled, asked = Pool(1, tmp_path / LOG), threading.Event(), []
    stop = threading.Thread(target=pool.stop)
    to_all, make = pool._signal, pool._process

    def signal_all(number):
        to_all(number)
        signalled.set()

    def start(number):
        stop.start()
        assert signalled.wait(60)
        return make(number)

    monkeypatch.setattr(pool, "_signal", signal_all)
    monkeypatch.setattr(pool, "_process", start)
    monkeypatch.setattr("gaf.lab.study.pool.ask", lambda *_: asked.append(1) or {"done": True})
    future = pool.submit(base(), tmp_path / "run", lambda *_: None)
    assert str(future.exception(timeout=60)) == "stopped"
    stop.join()
    assert not asked
    assert pool._processes[0].returncode is not None


def test_a_process_that_dies_within_a_line_has_died(tmp_path):
    code = """input(); print('{"step": 1, "total": 9}\\n{"step": 2, "to', end="")"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    told = []
    job = Job(base(), tmp_path, lambda *how_far: told.append(how_far), Future())
    assert ask(process, job) == {"died": True}
    assert told == [(1, 9)]
    end(process)


def test_a_full_disk_ends_the_grid(tmp_path, monkeypatch):
    monkeypatch.setattr("gaf.lab.study.pool.ask", lambda process, job: {"full": "no room"})
    with Pool(1, tmp_path / LOG) as pool, pytest.raises(DiskFull, match="no room"):
        run_grid(seeds(0, 1), tmp_path / "runs", pool)


def test_as_many_runs_at_once_as_the_machine_holds(monkeypatch):
    monkeypatch.setattr("gaf.lab.study.pool.cores", lambda: 8)
    assert slots(base("threads=1")) == 8
    assert slots(base("threads=3")) == 2
    assert slots(base("threads=16")) == 1
    assert cores() == len(os.sched_getaffinity(0))


def test_one_run_on_each_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert gpus(base("accelerator=cpu")) == ()
    assert gpus(base("accelerator=auto")) == ("0", "1", "2")
    assert slots(base("accelerator=auto")) == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert gpus(base("accelerator=cuda")) == ("4", "7")
    pool = Pool(2, tmp_path / LOG, ("4", "7"))
    assert [pool._environment(i)["CUDA_VISIBLE_DEVICES"] for i in (0, 1)] == ["4", "7"]


@pytest.mark.slow
def test_sigterm_makes_a_checkpoint(tmp_path):
    config = base("epochs=100000", pause=0.01)
    pool = Pool(1, tmp_path / LOG)
    future = pool.submit(config, tmp_path / "run", lambda *_: None)
    until = time.monotonic() + 120
    while not list(tmp_path.glob("run/checkpoints/*")) and time.monotonic() < until:
        time.sleep(0.05)
    pool.stop()
    assert future.exception() is not None
    assert pool._processes[0].returncode in (0, -signal.SIGTERM)
    assert list(tmp_path.glob("run/checkpoints/step-*"))
