"""Runs are found again by what they compute, failures stay where they are, a signal stops a grid."""

import json
import os
import signal
import threading
import time
from concurrent.futures import Future

import pytest

from gaf.lab.engine.config import override
from gaf.lab.engine.folder import read_config
from gaf.lab.study.grid import RUNS, Stopped, Watch, check_place, digest, machine, run_grid
from tests.lab.study.grid_tasks import Here, base


class Seen(Watch):
    def __init__(self):
        self.found, self.names, self.over = None, [], False

    def begin(self, configs, found):
        self.found = found

    def ended(self, config, outcome):
        self.names.append((config.name, outcome.result is not None))

    def end(self):
        self.over = True


def seeds(*numbers, **options):
    return [base(f"seed={number}", **options) for number in numbers]


def test_a_finished_run_is_found_whatever_it_is_called_and_not_run_again(tmp_path):
    first = run_grid(seeds(0, 1), tmp_path, Here())
    executor, seen = Here(), Seen()
    renamed = [each.model_copy(update={"name": "other"}) for each in seeds(1, 0, 2)]
    again = run_grid(renamed, tmp_path, executor, seen)
    assert [each.seed for each in executor.asked] == [2]
    assert {key: again[key] for key in first} == first
    assert (seen.found, len(seen.names), seen.over) == (2, 3, True)


def test_a_run_that_was_begun_under_another_name_goes_on(tmp_path):
    config = seeds(0)[0]
    done = run_grid([config], tmp_path, Here())[digest(config)]
    (done.folder / "finished.json").unlink()
    renamed = config.model_copy(update={"name": "other"})
    assert run_grid([renamed], tmp_path, Here())[digest(config)].result is not None
    assert read_config(done.folder).name == config.name


def test_the_same_config_twice_is_one_run(tmp_path):
    executor = Here()
    assert len(run_grid([*seeds(0), *seeds(0)], tmp_path, executor)) == 1
    assert len(executor.asked) == 1


def test_a_crash_is_the_runs_own(tmp_path):
    found = run_grid(seeds(0, 1, 2, crash=1), tmp_path, Here())
    errors = [each.error for each in found.values()]
    assert errors == ["", "RuntimeError: a crash\nof this seed", ""]
    executor = Here()
    run_grid(seeds(0, 1, 2, crash=1), tmp_path, executor)
    assert [each.seed for each in executor.asked] == [1]  # tried again, as its cause may be gone


def test_a_damaged_result_is_named(tmp_path):
    config = seeds(0)[0]
    path = run_grid([config], tmp_path, Here())[digest(config)].folder / "finished.json"
    for content in ("{", "{}", "[]", json.dumps({"final": {}, "best": {}})):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"finished\.json is damaged; remove"):
            run_grid([config], tmp_path, Here())


@pytest.mark.parametrize(
    "change",
    [
        *(
            "seed=1",
            "threads=2",
            "epochs=4",
            "batch_size=8",
            "evaluate_every=0",
            "precision=bf16-mixed",
        ),
        *("optimizer.lr=0.2", "optimizer.centralize=true", "optimizer.activation=tanh(0.1, 20)"),
        *("task.options.width=3", "schedule.name=constant"),
    ],
)
def test_what_is_computed_is_in_the_digest(change):
    assert digest(override(base(), [change])) != digest(base())


@pytest.mark.parametrize("change", ["name=x", "devices=2", "accelerator=cuda", "strategy=ddp"])
def test_names_and_places_are_not(change):
    assert digest(override(base(), [change])) == digest(base())


class Never:
    """An executor whose runs end when it is stopped."""

    def __init__(self):
        self.futures, self.stopped = [], False

    def submit(self, config, folder, seen):
        self.futures.append(Future())
        return self.futures[-1]

    def stop(self):
        self.stopped = True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_executor(tmp_path, number):
    executor, seen = Never(), Seen()
    before = signal.getsignal(number)
    threading.Thread(target=lambda: (time.sleep(0.3), os.kill(os.getpid(), number))).start()
    with pytest.raises(Stopped, match="0 of 2 runs finished") as stopped:
        run_grid(seeds(0, 1), tmp_path, executor, seen)
    assert executor.stopped
    assert seen.over
    assert stopped.value.number == number
    assert signal.getsignal(number) == before


def test_an_error_of_the_executor_ends_the_grid(tmp_path):
    executor = Never()
    executor.submit = lambda config, folder, seen: _broken()
    with pytest.raises(OSError, match="no room"):
        run_grid(seeds(0), tmp_path, executor)


def _broken():
    future: Future = Future()
    future.set_exception(OSError("no room"))
    return future


def test_a_folder_is_known_by_its_runs_or_its_record(tmp_path):
    check_place(tmp_path / "new", "thing")
    (tmp_path / ".lock").touch()
    check_place(tmp_path, "thing")
    (tmp_path / "thing.json").touch()
    check_place(tmp_path, "thing", "thing.json")
    with pytest.raises(ValueError, match=r"holds no thing; choose another folder \(--out\)"):
        check_place(tmp_path, "thing")
    with pytest.raises(ValueError, match=r"thing\.json is not a folder"):
        check_place(tmp_path / "thing.json", "thing")
    (tmp_path / RUNS).mkdir()
    check_place(tmp_path, "thing")


def test_what_a_run_tells_about_the_machine_is_not_about_the_run(tmp_path):
    found = run_grid(seeds(0), tmp_path, Here())
    folder = next(iter(found.values())).folder
    recorded = json.loads((folder / "environment.json").read_text())
    assert recorded.keys() - machine(folder).keys() == {"command", "time", "resumed"}
    (folder / "environment.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        machine(folder)
