"""Finished runs survive as lines: restored without training, whole after a kill, and free of paths."""

import json
import re

import pytest
from rich.console import Console

from gaf.common.errors import GafError
from gaf.lab.engine.folder import read_result
from gaf.lab.study.atlas.records import RecordingTable, RestoredRuns, RunRecords
from gaf.lab.study.grid import digest, run_grid
from gaf.lab.study.judge import history
from tests.lab.study.grid_tasks import Here, base

QUIET = Console(quiet=True)


def seeds(*numbers, **options):
    return [base(f"seed={number}", **options) for number in numbers]


def grid(configs, runs, path, executor):
    """Run what is not recorded; as a study does, with all runs of one setting."""
    records = RunRecords(path)
    watch = RecordingTable(QUIET, "tiny", records)
    watch.settings({digest(config): "sgd" for config in configs})
    return run_grid(configs, runs, RestoredRuns(executor, records), watch)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "records" / "tiny.jsonl"


def test_runs_are_restored_where_their_folders_are_gone(tmp_path, path):
    first = grid(seeds(0, 1), tmp_path / "a", path, Here())
    executor = Here()
    again = grid(seeds(0, 1, 2), tmp_path / "b", path, executor)
    assert [config.seed for config in executor.asked] == [2]
    for key, outcome in first.items():
        one, two = outcome.result, again[key].result
        assert (one.score, one.final, one.steps) == (two.score, two.final, two.steps)
        assert history(outcome).tests == history(again[key]).tests
        assert history(outcome).gap == pytest.approx(history(again[key]).gap)


def test_a_restored_run_is_found_finished_the_next_time(tmp_path, path):
    grid(seeds(0), tmp_path / "a", path, Here())
    grid(seeds(0), tmp_path / "b", path, Here())
    executor = Here()
    run_grid(seeds(0), tmp_path / "b", executor)
    assert executor.asked == []


def test_a_run_that_ended_before_a_kill_is_recorded_afterwards(tmp_path, path):
    run_grid(seeds(0), tmp_path / "a", Here())  # as if killed before the line was written
    grid(seeds(0), tmp_path / "a", path, Here())
    assert len(RunRecords(path).runs) == 1


def test_a_run_that_diverged_keeps_its_score(tmp_path, path):
    configs = [base("log_every=1", explode=5)]
    (outcome,) = grid(configs, tmp_path / "a", path, Here()).values()
    (restored,) = grid(configs, tmp_path / "b", path, Here()).values()
    assert outcome.result.diverged
    assert restored.result.diverged
    assert restored.result.score == outcome.result.score


def test_a_run_that_failed_has_no_record(tmp_path, path):
    grid(seeds(0, 1, crash=1), tmp_path / "a", path, Here())
    assert [run.seed for run in RunRecords(path).runs.values()] == [0]


def test_checkpoints_go_when_a_run_is_recorded(tmp_path, path):
    (outcome,) = grid(seeds(0), tmp_path / "a", path, Here()).values()
    left = {file.name for file in outcome.folder.iterdir() if not file.name.startswith(".")}
    assert left == {
        *("config.json", "identity.json", "environment.json", "metrics.jsonl", "finished.json")
    }
    assert read_result(outcome.folder).score == outcome.result.score


def test_half_a_line_is_lost_and_no_more(tmp_path, path):
    grid(seeds(0, 1), tmp_path / "a", path, Here())
    whole = path.read_bytes()
    for cut in range(1, 400, 7):
        path.write_bytes(whole[:-cut])
        assert len(RunRecords(path).runs) == 1
    (left,) = (run.seed for run in RunRecords(path).runs.values())  # whichever came first
    executor = Here()
    grid(seeds(0, 1), tmp_path / "b", path, executor)
    assert [config.seed for config in executor.asked] == [1 - left]
    assert {run.seed for run in RunRecords(path).runs.values()} == {0, 1}
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_line_is_added_and_none_is_changed(tmp_path, path):
    grid(seeds(0), tmp_path / "a", path, Here())
    before = path.read_bytes()
    grid(seeds(0, 1), tmp_path / "a", path, Here())
    after = path.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == before.count(b"\n") + 1  # the same code and machine


@pytest.mark.parametrize("change", ["optimizer.lr=0.2", "seed=7", "epochs=2"])
def test_another_config_has_another_record(tmp_path, path, change):
    grid([base()], tmp_path / "a", path, Here())
    executor = Here()
    grid([base(change)], tmp_path / "b", path, executor)
    assert len(executor.asked) == 1


def test_a_task_of_another_version_has_another_record(tmp_path, path, monkeypatch):
    grid([base()], tmp_path / "a", path, Here())
    monkeypatch.setattr("tests.lab.study.grid_tasks.Trouble.version", 2)
    executor = Here()
    grid([base()], tmp_path / "b", path, executor)
    assert len(executor.asked) == 1
    assert len(RunRecords(path).runs) == 2


def test_records_hold_no_path(tmp_path, path):
    grid(seeds(0), tmp_path / "a", path, Here())
    assert str(tmp_path) not in path.read_text()
    assert not re.search(r'"[^"]*(?:/home/|/root|/tmp|/work|/usr)[^"]*"', path.read_text())


@pytest.mark.parametrize(
    "line", ["{}", "[]", "no json", '{"kind": "walk"}', '{"kind": "run", "run": "abc"}']
)
def test_a_damaged_line_is_named(tmp_path, path, line):
    path.parent.mkdir()
    path.write_text(f"{line}\n")
    with pytest.raises(GafError, match=r"tiny\.jsonl is damaged: line 1: "):
        RunRecords(path)


def test_a_line_that_does_not_fit_its_digest_is_refused(tmp_path, path):
    (outcome,) = grid(seeds(0), tmp_path / "a", path, Here()).values()
    lines = path.read_text().splitlines(keepends=True)
    identity = json.loads(lines[0])
    identity["identity"]["versions"]["engine"] = 99
    path.write_text("".join([json.dumps(identity) + "\n", *lines[1:]]))
    with pytest.raises(GafError, match=f"the run {outcome.folder.name} is not what its line says"):
        grid(seeds(0), tmp_path / "b", path, Here())


def test_a_run_that_refers_to_nothing_is_damage(tmp_path, path):
    grid(seeds(0), tmp_path / "a", path, Here())
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[1:]))
    with pytest.raises(GafError, match="refers to a line that is not before it"):
        RunRecords(path)
