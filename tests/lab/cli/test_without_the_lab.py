"""With the extra `cli` alone every command answers: with help, or with the package that it lacks."""

import json
import subprocess
import sys

import pytest

from gaf.lab.cli.app import app

LAB = (
    *("gymnasium", "lightning_fabric", "matplotlib", "numpy", "PIL"),
    *("ray", "scipy", "sklearn", "tensorboard"),
)
COMMANDS = [*sorted(command.callback.__name__ for command in app.registered_commands), "data"]
CALLS = [
    *([command, "--help"] for command in COMMANDS),
    ["--version"],
    ["train", "--list"],
    ["data", "list"],
]
LACKING = [["train", "digits-cnn-sgdm"], ["tune"], ["figure", "1"]]

# None in sys.modules: importing the name fails as it does where the package is not installed.
SCRIPT = """
import contextlib, io, json, sys, warnings
warnings.simplefilter("ignore")  # torch notices that numpy is missing
sys.modules.update(dict.fromkeys({lab}))
from gaf.lab.cli.app import run
for call in {calls}:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = run(call)
    print(json.dumps([call, status, said.getvalue()]))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[tuple[str, ...], tuple[int, str]]:
    code = SCRIPT.format(lab=LAB, calls=CALLS + LACKING)
    folder = tmp_path_factory.mktemp("empty")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    rows = map(json.loads, done.stdout.splitlines())
    return {tuple(call): (status, said) for call, status, said in rows}


def test_every_command_is_asked(answers):
    assert {"bench", "compare", "train"} <= set(COMMANDS)
    assert set(answers) == {tuple(call) for call in CALLS + LACKING}


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_what_needs_no_more_works(answers, call):
    assert answers[tuple(call)] == (0, "")


@pytest.mark.parametrize("call", LACKING, ids=" ".join)
def test_what_needs_the_lab_names_the_package(answers, call):
    status, said = answers[tuple(call)]
    assert status == 2
    assert said.startswith("gaf: this needs ")
    assert said.endswith("pip install 'activated-gradients[lab]'\n")
    assert said.count("\n") == 1
