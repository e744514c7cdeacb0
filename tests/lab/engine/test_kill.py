"""A training that is killed at any moment, again and again, ends as if nothing had happened."""

import random
import signal
import time

import pytest

from gaf.lab.engine import checkpoint
from tests.lab.engine.processes import arguments, run, start, wait_for
from tests.lab.engine.tiny import assert_same_run, last_checkpoint, metrics

KILLS = 10
IN_A_WRITE = 4  # of them
CHANGES = ("epochs=6", "batch_size=16", "checkpoint_every=2")
# 1.1 M weights: a checkpoint of 9 MB takes longer than a step; dropout: the random states matter
OPTIONS = {"width": 1024, "depth": 2, "dropout": 0.2}
# 200 samples to train on
SAMPLES = {
    "test": (200, ()),
    "validation": (250, ("task.validation=0.2", "task.score_on=validation")),
}


@pytest.mark.slow
@pytest.mark.parametrize("scored_on", SAMPLES)
def test_killed_at_ten_random_moments(tmp_path, scored_on):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    samples, more = SAMPLES[scored_on]
    changes, options = (*CHANGES, *more), {**OPTIONS, "samples": samples}
    status, _, err = run(arguments(whole, *changes, options=options))
    assert status == 0, err
    moments = random.Random(7)
    order = [True] * IN_A_WRITE + [False] * (KILLS - IN_A_WRITE)
    moments.shuffle(order)
    steps, cut_short = [], 0
    for in_a_write in order:
        before = newest(killed)
        process = start(arguments(killed, *changes, options=options))
        # It must get somewhere, or ten kills would all hit the same step.
        wait_for(process, lambda before=before: newest(killed) > before)
        time.sleep(moments.uniform(0, 0.4))
        if in_a_write:
            wait_for(process, lambda: unfinished(killed))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        steps.append(newest(killed))
        cut_short += bool(unfinished(killed))
    assert not (killed / "finished.json").exists(), steps
    assert cut_short >= 1, "no kill fell into the writing of a checkpoint"
    status, _, err = run(arguments(killed, *changes, options=options))
    assert status == 0, err
    assert_same_run(whole, killed)
    assert last_checkpoint(killed)["state"]["step"] == 78
    assert any(step % 13 for step in steps), "no kill fell into an epoch"
    assert {record["kind"] for record in metrics(killed)} == {"train", scored_on, "gradients"}
    print(
        f"killed after the checkpoints of steps {steps}, {cut_short} of them while writing the next"
    )


def newest(folder):
    found = checkpoint.steps(folder / "checkpoints")
    return int(found[0].name.removeprefix("step-")) if found else 0


def assert_survives_a_kill(recipe, sets, folder):
    """A training that is killed after a checkpoint or two, and goes on, ends as the one that was not."""
    given = [part for change in sets for part in ("--set", change)]
    whole, killed = (
        ["train", recipe, *given, "--out", str(folder / name)] for name in ("whole", "killed")
    )
    assert run(whole, timeout=600)[0] == 0
    process = start(killed)
    wait_for(process, lambda: newest(folder / "killed") >= 6)
    process.kill()
    process.communicate()
    assert not (folder / "killed" / "finished.json").exists()
    assert run(killed, timeout=600)[0] == 0
    assert_same_run(folder / "whole", folder / "killed")


def unfinished(folder):
    return list((folder / "checkpoints").glob(".step-*.tmp"))
