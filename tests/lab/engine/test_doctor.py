"""gaf doctor: real scripts in real processes, and files that are damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import gaf
from gaf.common.errors import GafError
from gaf.lab.engine import doctor
from gaf.lab.engine.doctor import diagnose_file, watch_script
from gaf.lab.engine.script import ScriptFailed
from gaf.lab.engine.signals import Wish
from tests.lab.engine import planted
from tests.lab.engine.planted import HEALTHY, NOTES, PROBLEMS


def watch(tmp_path, monkeypatch, *arguments, steps=40, text=None):
    """The script in a folder of its own, as a user has it."""
    monkeypatch.chdir(tmp_path)
    if text is None:
        shutil.copy(planted.__file__, tmp_path / "train.py")
    else:
        Path("train.py").write_text(text)
    return watch_script(
        "train.py", arguments, "", tmp_path / "out", steps=steps, threads=1, wish=Wish()
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", [*PROBLEMS, *NOTES, *HEALTHY])
def test_the_doctor_says_what_was_planted(case, tmp_path, monkeypatch):
    diagnosis = watch(tmp_path, monkeypatch, case)
    assert diagnosis.steps == 40
    assert diagnosis.error is None
    (watched,) = diagnosis.optimizers
    kinds = {finding.kind for finding in watched.findings}
    assert case in HEALTHY or case in kinds
    assert {finding.kind for finding in diagnosis.problems} == ({case} & set(PROBLEMS))
    said = (tmp_path / "out" / "stdout.txt").read_text()
    assert "the training has come to its end" not in said  # it was ended before


@pytest.mark.slow
def test_a_script_that_ends_or_fails_by_itself(tmp_path, monkeypatch):
    diagnosis = watch(tmp_path, monkeypatch, "healthy perceptron", "--steps", "7")
    assert (diagnosis.steps, diagnosis.error) == (7, None)
    text = (
        "import sys, torch\n"
        "w = torch.zeros(3, requires_grad=True)\n"
        "opt = torch.optim.SGD([w], lr=1.0)\n"
        "for step in range(5):\n"
        "    w.grad = torch.ones(3)\n"
        "    try:\n"
        "        opt.step()\n"
        "    except Exception:\n"
        "        pass\n"
        "raise RuntimeError('no more data')\n"
    )
    diagnosis = watch(tmp_path, monkeypatch, text=text)
    assert (diagnosis.steps, diagnosis.error) == (5, "RuntimeError: no more data")
    assert diagnosis.optimizers[0].records[0]["name"] == "group 0, tensor 0"
    stubborn = text.replace("range(5)", "range(10**9)").replace(
        "except Exception", "except BaseException"
    )
    assert (
        watch(tmp_path, monkeypatch, text=stubborn, steps=20).steps == 30
    )  # it was ended all the same


@pytest.mark.slow
def test_scripts_that_never_step(tmp_path, monkeypatch):
    with pytest.raises(ScriptFailed, match="no torch optimizer took a step in train"):
        watch(tmp_path, monkeypatch, text="print('hello')\n")
    with pytest.raises(ScriptFailed, match=r"ended with status 1: ValueError: bad \(?.*before an"):
        watch(tmp_path, monkeypatch, text="raise ValueError('bad')\n")


def records(path):
    w = torch.ones(3, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.1)
    monitor = gaf.Monitor(opt, every=2)
    for value in (1.0, 2.0, float("nan"), 3.0, 4.0):
        w.grad = torch.full((3,), value)
        monitor.clip_grad_norm_([w], 0.5)
        opt.step()
    monitor.write_jsonl(path)
    return monitor


def test_a_monitors_file_is_read_back(tmp_path):
    path = tmp_path / "monitor.jsonl"
    monitor = records(path)
    diagnosis = diagnose_file(path)
    (watched,) = diagnosis.optimizers
    assert (diagnosis.steps, watched.every) == (5, 2)
    assert [record["norm"] for record in watched.records] == [r["norm"] for r in monitor.records]
    assert len(watched.clips) == 5
    assert watched.clips[2]["norm"] != watched.clips[2]["norm"]  # NaN
    assert diagnosis.as_dict()["optimizers"][0]["findings"][0]["kind"] == "nonfinite"
    json.dumps(diagnosis.as_dict())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "line 1"),
        ("[]", "line 1"),
        ('{"kind": "clip", "step": 1}', "line 1: 'norm'"),
        ('{"kind": "clip", "step": 1, "norm": "x", "max_norm": 1}', "norm is str"),
        ('{"kind": "gradients"}', "line 1: 'step'"),
    ],
)
def test_damaged_files_are_named(tmp_path, line, said):
    path = tmp_path / "monitor.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(GafError, match=f"is damaged: .*{said}|is damaged: {said}"):
        diagnose_file(path)
    path.write_text("")
    with pytest.raises(GafError, match="holds no records"):
        diagnose_file(path)
    with pytest.raises(GafError, match="cannot be read"):
        doctor.read_records(tmp_path / "missing.jsonl")
