"""A folder that one process at a time writes to."""

import time

import pytest

from gaf.common.errors import GafError
from gaf.common.files import locked
from tests.forked import Forked

HOLD = """
import pathlib, sys, time
from gaf.common.errors import GafError
from gaf.common.files import locked
with locked(pathlib.Path(sys.argv[1]), GafError("held")):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_keeps_others_out_and_goes_with_a_killed_process(tmp_path):
    folder = tmp_path / "folder"
    holder = Forked(["-c", HOLD, str(folder)])
    while holder.printed() != ("held\n", ""):
        assert holder.poll() is None, holder.printed()
        time.sleep(0.001)
    with (
        pytest.raises(GafError, match=r"^it is in use$"),
        locked(folder, GafError("it is in use")),
    ):
        pass
    holder.kill()
    holder.wait()
    with locked(folder, GafError("it is in use")):
        pass


def test_an_error_inside_lets_go_of_the_lock(tmp_path):
    with pytest.raises(TimeoutError), locked(tmp_path, GafError("it is in use")):
        raise TimeoutError
    with locked(tmp_path, GafError("it is in use")):
        pass
