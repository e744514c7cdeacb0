"""What is shown of a grid on its way: how long it takes, and what was there before."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from gaf.lab.engine.folder import Result
from gaf.lab.engine.script import script_config
from gaf.lab.study.grid import Outcome
from gaf.lab.study.live import LiveTable

RUN = script_config("train.py")
RESULT = {"score_name": "accuracy", "score": 0.9, "higher_is_better": True, "diverged": False}
ENDED = Outcome(
    Path(),
    Result(
        name="train.py", final={}, best={}, steps=1, seconds_per_step=1.0, folder=Path(), **RESULT
    ),
)


@pytest.fixture(params=[False, True], ids=["pipe", "terminal"])
def table(request):
    text = io.StringIO()
    console = Console(file=text, force_terminal=request.param, width=80, no_color=True)
    return LiveTable(console, "train.py", runs=73, slots=2), text


def test_after_the_first_run_the_time_of_all_is_known(table, monkeypatch):
    """The start of the process that trains is no part of it."""
    live, text = table
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    live.phase("the first run")
    live.begin([RUN], 0)
    now = 20.0
    live.progress(RUN, 0, 1)
    now = 27.25
    live.ended(RUN, ENDED)
    live.end()
    live.first_run()
    assert "train.py: a run takes 0:00:07, so at least 0:04:21 for all" in text.getvalue()


def test_a_first_run_that_was_there_before_gives_no_time(table):
    live, text = table
    live.phase("the first run")
    live.begin([RUN], 1)
    live.ended(RUN, ENDED)
    live.end()
    live.first_run()
    assert "a run takes" not in text.getvalue()


def test_what_was_finished_before_is_said_under_its_heading(table):
    live, text = table
    live.phase("final")
    live.begin([RUN], 1)
    live.end()
    lines = text.getvalue().splitlines()
    assert " ".join(lines).count("train.py: final") == 1
    assert lines[-1].endswith("1 of 1 runs was finished before")
