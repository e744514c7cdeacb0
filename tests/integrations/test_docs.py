"""docs/distributed.md and docs/frameworks.md tell the truth: their Python runs, in order."""

import runpy
import types
import warnings
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
def test_frameworks(tmp_path, monkeypatch):
    for name in ("lightning", "transformers", "accelerate"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the frameworks' imports
        module = run("frameworks.md")
    kind, arguments = module["chosen"]
    assert kind.__module__ == "gaf.optim.adam"
    assert arguments["lr"] == 1e-3
