"""Every script in examples/ runs as a user would run it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Examples that start processes or import a framework: slow, and skipped where it is not installed.
SLOW = {
    "ddp": "torch",
    "fsdp": "torch",
    "hf_trainer": "transformers",
    "keras_training": "keras",
    "lightning_trainer": "lightning",
    "optax_training": "optax",
}
EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


def test_there_are_examples():
    assert EXAMPLES, "examples/ holds no script"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in SLOW else [], id=path.stem)
        for path in EXAMPLES
    ],
)
def test_example_runs(script, tmp_path):
    needed = SLOW.get(script.stem, "torch")
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{script.name} failed:\n{done.stdout}\n{done.stderr}"
