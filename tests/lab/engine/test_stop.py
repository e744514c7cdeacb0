"""SIGTERM and Ctrl-C save and exit; the run goes on later."""

import signal

import pytest

from tests.lab.engine.processes import arguments, run, start, wait_for
from tests.lab.engine.tiny import KIND, assert_same_run

CHANGES = ("epochs=200", "batch_size=16", "checkpoint_every=100000", "evaluate_every=100")


@pytest.mark.slow
def test_a_signal_saves_and_the_run_goes_on(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert run(arguments(whole, *CHANGES))[0] == 0
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start(arguments(stopped, *CHANGES))
        before = size(stopped)
        wait_for(process, lambda before=before: size(stopped) > before + 1000)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number
        assert "Traceback" not in err
        assert out == ""
        assert f"gaf train --resume {stopped} --task {KIND}" in err.splitlines()[-1]
        assert not (stopped / "finished.json").exists()
    status, out, err = run(["train", "--resume", str(stopped), "--task", KIND])
    assert status == 0, err
    assert "resumed at step" in err
    assert_same_run(whole, stopped)


def size(folder):
    path = folder / "metrics.jsonl"
    return path.stat().st_size if path.exists() else 0
