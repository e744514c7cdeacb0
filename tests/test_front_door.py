"""What the two commands of the README rest on: the same examples in every run, pins that can be installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]

DRAWS = """
from hypothesis import given, strategies as st

@given(st.floats())
def test_draw(x):
    with open({log!r}, "a") as log:
        log.write(f"{{x!r}}\\n")
"""


def draws(folder: Path, *options: str) -> list[str]:
    """What a property test draws in a new process under this suite's conftest."""
    log = folder / "draws.txt"
    log.unlink(missing_ok=True)
    (folder / "test_draw.py").write_text(DRAWS.format(log=str(log)), "utf-8")
    (folder / "conftest.py").write_text(
        (ROOT / "tests" / "conftest.py").read_text("utf-8"), "utf-8"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."]
    environment = {"PATH": "", "PYTHONPATH": str(ROOT)}  # no CI, no GAF_DATA
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    assert not (folder / ".hypothesis" / "examples").exists()
    return log.read_text("utf-8").splitlines()


@pytest.mark.slow
def test_examples_are_the_same_in_every_run_and_others_with_a_seed(tmp_path):
    first = draws(tmp_path)
    assert len(first) >= 50
    assert draws(tmp_path) == first
    fuzz = ("--hypothesis-profile=fuzz", "--hypothesis-seed=1")
    other = draws(tmp_path, *fuzz)
    assert other != first
    assert draws(tmp_path, *fuzz) == other


@pytest.mark.skipif(
    hypothesis.settings.get_current_profile_name() == "fuzz", reason="make fuzz draws anew"
)
def test_nothing_is_drawn_anew_and_nothing_is_kept():
    assert hypothesis.settings().derandomize
    assert hypothesis.settings().database is None


def test_pins_are_exact_and_one_for_each_environment():
    assert all(re.fullmatch(r"==[^=*]+", str(pin.specifier)) for pin in PINS)
    for python in ("3.10.0", "3.11.0", "3.11.5", "3.12.0", "3.13.0", "3.14.0"):
        here = {
            "python_full_version": python,
            "python_version": ".".join(python.split(".")[:2]),
            "sys_platform": "linux",
            "platform_system": "Linux",
            "platform_machine": "x86_64",
            "os_name": "posix",
        }
        chosen = [pin.name for pin in PINS if not pin.marker or pin.marker.evaluate(here)]
        assert len(chosen) == len(set(chosen)), python
        assert {"torch", "triton", "numpy", "pytest"} <= set(chosen)
