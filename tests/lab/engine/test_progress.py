"""A bar on a terminal, plain lines elsewhere."""

import io

from rich.console import Console

from gaf.lab.engine import progress
from gaf.lab.engine.progress import ConsoleProgress


def show(terminal, monkeypatch):
    now = iter(range(0, 1000, 4))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(now)))
    text = io.StringIO()
    shown = ConsoleProgress(Console(file=text, force_terminal=terminal, width=100))
    shown.begin("tiny", 10, 100)
    for step in range(11, 21):
        shown.step(step, 32)
    shown.say("step 20/100: top1 0.5")
    shown.end()
    return text.getvalue()


def test_plain_lines_every_ten_seconds(monkeypatch):
    found = show(False, monkeypatch).splitlines()
    assert found == [
        "tiny: resumed at step 10 of 100",
        "tiny: step 13/100, 8 images/s, 0:05:48 left",
        "tiny: step 16/100, 8 images/s, 0:05:36 left",
        "tiny: step 19/100, 8 images/s, 0:05:24 left",
        "tiny: step 20/100: top1 0.5",
    ]


def test_a_bar_with_speed_on_a_terminal(monkeypatch):
    found = show(True, monkeypatch)
    assert "images/s" in found
    assert "/100" in found
    assert "top1 0.5" in found
    assert "\x1b[" in found
