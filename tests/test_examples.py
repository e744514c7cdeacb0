"""Every script in examples/ runs as a user would run it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Examples that train for long, start processes or import a framework: slow, and skipped where what they
# need is not installed.
SLOW = {
    "ddp": "torch",
    "fsdp": "torch",
    "hf_trainer": "transformers",
    "keras_training": "keras",
    "lightning_trainer": "lightning",
    "optax_training": "optax",
    "quickstart": "torch",
    "trial_hf_trainer": "transformers",
    "trial_lightning": "lightning",
    "trial_loop": "torch",
}
EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))
QUICK = [path for path in EXAMPLES if path.stem not in SLOW]
ONE_BY_ONE = """
import os, runpy, sys
for path in sys.argv[1:]:
    print("===", path, flush=True)
    sys.path[0] = os.path.dirname(path)  # as for a script
    runpy.run_path(path, run_name="__main__")
"""


def run(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_quick_ones_run(tmp_path):
    """In one process: importing torch takes longer than the rest of them."""
    assert QUICK, "examples/ holds no script"
    run(tmp_path, "-c", ONE_BY_ONE, *map(str, QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(SLOW))
def test_a_slow_one_runs(script, tmp_path):
    if importlib.util.find_spec(SLOW[script]) is None:
        pytest.skip(f"needs {SLOW[script]}")
    run(tmp_path, str(EXAMPLES[0].parent / f"{script}.py"))
