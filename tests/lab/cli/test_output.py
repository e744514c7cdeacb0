"""How a command ends: its output on a full device or in a closed pipe, Ctrl-C while torch is imported."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gaf.lab.cli.app import app, help_of, run
from tests.forked import ENVIRONMENT, ROOT

SCRIPT = "import gaf_command; gaf_command.main()"  # as the installed command does
BUFFERED = {key: value for key, value in ENVIRONMENT.items() if key != "PYTHONUNBUFFERED"}

linux = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def test_the_command_is_this_script():
    assert (
        '\n[project.scripts]\ngaf = "gaf_command:main"\n' in (ROOT / "pyproject.toml").read_text()
    )


def gaf(*args, **where):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *args],
        stderr=subprocess.PIPE, text=True, env=BUFFERED, timeout=60, check=False, **where,
    )  # fmt: skip


@linux
def test_a_full_device_is_one_line():
    with open("/dev/full", "w") as full:
        done = gaf("train", "--list", stdout=full)
    assert done.returncode == 1
    assert done.stderr == "gaf: the output cannot be written: No space left on device\n"


@linux
@pytest.mark.parametrize("args", [["train", "--list", "--json"], ["--help"], ["data", "list"]])
def test_a_full_device_is_one_line_in_every_command(args, capsys, monkeypatch):
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(args) == 1
    assert capsys.readouterr().err.endswith("cannot be written: No space left on device\n")


def test_a_closed_pipe_is_no_word(capsys, monkeypatch):
    """As with ``gaf train --list | head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert run(["train", "--list"]) == 1
    assert capsys.readouterr().err == ""


def test_ctrl_c_while_torch_is_imported_is_no_word():
    command = [sys.executable, "-X", "importtime", "-c", SCRIPT, "--version"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "torch." in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert [line for line in rest.splitlines() if not line.startswith("import time:")] == []


def test_help_has_a_line_for_each_paragraph_and_example():
    """The terminal wraps it: lines as wide as the source would break twice at 80 columns."""
    for command in (each.callback for each in app.registered_commands):
        for paragraph in help_of(command).split("\n\n"):
            first, *others = paragraph.split("\n")
            assert first
            assert all(line.startswith("Example: gaf ") for line in others)
    assert any(each.help.count("Example: gaf ") > 1 for each in app.registered_commands)
