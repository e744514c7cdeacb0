"""A grid on a Ray cluster: a node that is lost loses nothing, and what cannot work is said in a sentence."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import typer

from gaf.lab.cli.terminal import errors_in_a_line
from gaf.lab.engine.folder import locked, read_result
from gaf.lab.engine.run import train
from gaf.lab.study import results
from gaf.lab.study.grid import RunFailed, run_grid
from gaf.lab.study.ray_grid import RayGrid, last_step, resources
from gaf.lab.study.ray_task import progress
from gaf.lab.study.results import Filled
from gaf.lab.study.table.fill import fill
from gaf.lab.study.table.plan import make
from tests.forked import ROOT, SOURCES
from tests.lab.engine import processes
from tests.lab.engine.tiny import assert_same_run
from tests.lab.study.grid_tasks import Here, base, run_folder

if importlib.util.find_spec("ray") is None:
    pytest.skip("needs Ray: pip install 'activated-gradients[cluster]'", allow_module_level=True)

# Real trainings of seconds: Table III's first rows, small, on digits, a checkpoint at every fifth step.
CHANGES = (
    *("task.data=digits", "task.data_options.limit=320", "batch_size=32", "epochs=3"),
    *("accelerator=cpu", "checkpoint_every=5", "monitor_every=0"),
)
PART = {"models": ["cifar10-resnet50"], "settings": ["arctan(0.1, 20)"], "seeds": 2}
TIMES = ("created", "command", "environment")
SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}


def arguments(folder, *more):
    sets = [part for change in CHANGES for part in ("--set", change)]
    chosen = ["--models", PART["models"][0], "--settings", PART["settings"][0], "--seeds", "2"]
    return ["table", "cifar-adam", *chosen, *sets, "--out", str(folder), *more]


def table(folder):
    """The table in a folder, times aside."""
    found = results.read(folder, Filled).model_dump()
    return {key: value for key, value in found.items() if key not in TIMES}


@pytest.fixture(scope="module")
def cluster():
    """A head that trains one run at a time; nodes are added by the test."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", SOURCES)
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **SMALL})
        yield found
        found.shutdown()


def on_node(folder, node):
    """A run in progress on the node that has made a checkpoint."""
    for run in folder.glob("runs/*"):
        told = progress(run) if run.is_dir() and not (run / "finished.json").exists() else None
        if told and told["node"] == node.node_id and last_step(run) > 0:
            return run
    return None


def wait_until(condition, process, seconds=300.0):
    """Patience for a machine that is busy with other things."""
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
def test_a_node_that_is_killed_loses_nothing(cluster, tmp_path):
    """Its run goes on from its checkpoint on the other node, and the table is that of an undisturbed grid."""
    folder = tmp_path / "t"
    second = cluster.add_node(num_cpus=1, **SMALL)
    more = ("--on", "ray", "--address", cluster.address)
    process = processes.start(arguments(folder, *more), cwd=ROOT)
    try:
        wait_until(lambda: on_node(folder, second), process)
        run = on_node(folder, second)
        reached = last_step(run)
        assert json.loads((run / "environment.json").read_text())["resumed"] == []
        cluster.remove_node(second, allow_graceful=False)  # SIGKILL
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, out + err
    assert "failed" not in err
    told = progress(run)
    assert told["node"] == cluster.head_node.node_id
    assert 0 < reached <= told["from"] < told["total"]  # not from the beginning
    assert len(json.loads((run / "environment.json").read_text())["resumed"]) == 1
    assert f"it resumes at step {told['from']}" in (folder / "runs" / "ray.log").read_text()
    assert not list((folder / "runs").glob(".shared-*"))
    fill(make("cifar-adam", **PART, changes=CHANGES), tmp_path / "calm", Here())
    assert table(folder) == table(tmp_path / "calm")
    assert results.read(folder, Filled).finished
    assert_same_run(run, tmp_path / "calm" / "runs" / run.name)


@pytest.mark.slow
def test_runs_that_crash_die_or_cannot_be_held(cluster, tmp_path, monkeypatch):
    """On one Ray, as it takes seconds to start; the last one is stopped, and saves."""
    monkeypatch.setattr("gaf.lab.study.ray_grid.ATTEMPTS", 2)  # each takes the start of a process
    once = tmp_path / "died"
    with RayGrid(tmp_path / "runs", cluster.address) as executor:
        configs = [
            base("seed=0"),
            base("seed=1", crash=1),
            base("seed=2", die=2, once=str(once)),
            base("seed=3", die=3, at=3),
        ]
        found = list(run_grid(configs, tmp_path / "runs", executor).values())
        errors = [each.error for each in found]
        assert errors[:3] == ["", "RuntimeError: a crash of this seed", ""]
        assert errors[3].startswith("the process died 2 times at the same place: ")
        assert once.exists()
        assert progress(found[2].folder)["from"] == 5  # its checkpoint, two steps before it died
        with pytest.raises(ValueError, match=r"no node .* 99 CPUs and 0 GPUs: change threads"):
            executor.submit(base("threads=99"), tmp_path / "runs" / "x", lambda *_: None)
        with pytest.raises(ValueError, match="1 CPUs and 1 GPUs"):
            executor.submit(base("accelerator=cuda"), tmp_path / "runs" / "x", lambda *_: None)
        executor._mark.rename(tmp_path / "mark")  # as a node sees it that has another folder there
        unseen = executor.submit(base("seed=4"), tmp_path / "runs" / "x", lambda *_: None)
        complaint = str(unseen.exception(timeout=120))
        assert re.match(r"the node \S+ does not see \S+/runs: give --out a folder", complaint)
        assert not (tmp_path / "runs" / "x").exists()
        (tmp_path / "mark").rename(executor._mark)
        told = []
        long = base("seed=5", "epochs=100000", pause=0.01)
        stopped = executor.submit(long, tmp_path / "runs" / "y", lambda *far: told.append(far))
        until = time.monotonic() + 120
        while not told and time.monotonic() < until:
            time.sleep(0.05)
        executor.stop()
        assert isinstance(stopped.exception(timeout=60), RunFailed)
    assert last_step(tmp_path / "runs" / "y") > 0
    assert told[-1][1] == 500_000
    for seed in (0, 2):
        train(base(f"seed={seed}"), tmp_path / f"alone-{seed}")
        run = run_folder(configs[seed], tmp_path / "runs")
        assert read_result(run).final == read_result(tmp_path / f"alone-{seed}").final


@pytest.mark.slow
def test_a_killed_process_leaves_no_lock(tmp_path):
    """What lets the next node go on at once: the lock of a run's folder is gone with its holder."""
    code = (
        "import time, pathlib\n"
        "from gaf.lab.engine.folder import locked\n"
        f"with locked(pathlib.Path({str(tmp_path)!r})):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(ValueError, match="another process is training"), locked(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    with locked(tmp_path):
        pass


def test_a_cluster_that_is_lost_ends_all_runs_in_a_sentence(tmp_path, monkeypatch):
    class Lost:
        from ray import exceptions

        def nodes(self):
            return [{"Alive": True, "Resources": {"CPU": 1}}]

        def remote(self, **_):
            return lambda train: SimpleNamespace(remote=lambda *_: object())

        def wait(self, *_, **__):
            raise ConnectionError("the head is gone.\nAnd much more.")

    monkeypatch.setattr("gaf.lab.study.ray_grid._ray", Lost)
    grid = RayGrid(tmp_path)
    grid._gpus, grid._mark = False, tmp_path / "mark"
    for _ in range(2):  # also a run that is asked for after the loss
        futures = [grid.submit(base(), tmp_path / "run", lambda *_: None) for _ in range(3)]
        for future in futures:
            assert isinstance(future.exception(timeout=60), ValueError)
    with pytest.raises(typer.TyperException) as said, errors_in_a_line():
        futures[0].result()
    assert str(said.value) == (
        "the Ray cluster is lost: the head is gone; once it is back, the same command resumes"
    )
    grid.stop()
    assert not grid._thread.is_alive()


def test_a_gpu_is_asked_for_where_a_run_would_take_one():
    ask = {
        ("cpu", True): 0,
        ("cpu", False): 0,
        ("auto", True): 1,
        ("auto", False): 0,
        ("cuda", False): 1,
    }
    for (accelerator, gpus), number in ask.items():
        config = base(f"accelerator={accelerator}", "threads=3")
        assert resources(config, gpus) == {"num_cpus": 3, "num_gpus": number}


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379", "127.0.0.1:99999"])
def test_an_address_where_nobody_answers(address, tmp_path):
    with pytest.raises(ValueError, match=f"no Ray cluster answers at {address}: "):
        RayGrid(tmp_path / "runs", address).__enter__()
    assert list(tmp_path.iterdir()) == []
