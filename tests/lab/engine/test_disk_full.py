"""A disk that fills up: one sentence, and the checkpoint before is whole."""

import os
import subprocess
import sys

import pytest

from gaf.lab.engine import checkpoint
from tests.lab.engine.processes import arguments, run
from tests.lab.engine.tiny import assert_same_run

CHANGES = ("epochs=3", "batch_size=16")
OPTIONS = {"width": 256, "depth": 2}  # a checkpoint has 0.6 MB


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB: room for two checkpoints and not for a third."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root on Linux")
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this system does not let root mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def check(status, err, folder):
    assert (status, err.count("gaf: ")) == (1, 1), err
    assert "Traceback" not in err
    assert "there is no room left" in err.splitlines()[-1]
    whole = checkpoint.steps(folder / "checkpoints")
    assert whole[0].name in err
    assert not list((folder / "checkpoints").glob(".*"))
    for path in whole:
        checkpoint.verify(path)


@pytest.mark.slow
def test_a_full_disk(small_disk, tmp_path):
    whole, cut = tmp_path / "whole", small_disk / "run"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(600_000))
    status, _, err = run(arguments(cut, *CHANGES, options=OPTIONS))
    check(status, err, cut)
    ballast.unlink()
    assert run(arguments(cut, *CHANGES, options=OPTIONS))[0] == 0
    assert run(arguments(whole, *CHANGES, options=OPTIONS))[0] == 0
    assert_same_run(whole, cut)


@pytest.mark.slow
def test_a_file_that_may_not_grow(tmp_path):
    """Without a file system of its own: a limit on the size of files, which the weights run into."""
    folder = tmp_path / "run"
    args = (*CHANGES, "checkpoint_every=100", "epochs=1")
    status, _, err = run(arguments(folder, *args, options=OPTIONS), file_size=300_000)
    assert status == 1, err
    assert "there is no checkpoint yet" in err.splitlines()[-1]
    assert run(arguments(folder, *args, options=OPTIONS))[0] == 0
