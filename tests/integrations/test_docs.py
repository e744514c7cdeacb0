"""docs/distributed.md and docs/frameworks.md tell the truth: their Python runs, in order."""

import importlib.util
import os
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = types.SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "check.py")))


def run(name):
    page = ROOT / "docs" / name
    module: dict = {}
    for first_line, code in CHECK.python_blocks(page.read_text("utf-8")):
        exec(CHECK.compile_block(code, first_line, page), module)
    return module


def test_distributed():
    assert run("distributed.md")["opt"].param_groups[0]["gaf_function"] == "arctan"


@pytest.mark.slow
def test_frameworks(tmp_path):
    for name in ("lightning", "transformers", "accelerate", "optax", "keras"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    code = (
        "from tests.integrations.test_docs import run\n"
        "kind, arguments = run('frameworks.md')['chosen']\n"
        "print(kind.__module__, arguments['lr'])"
    )
    # a process of its own: JAX starts threads, so that a fork in a later test would warn
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["gaf.optim.adam", "0.001"], done.stderr
