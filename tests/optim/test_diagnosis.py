"""Every sentence of a diagnosis by a training in which its case is planted; healthy ones raise no alarm."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

import gaf
from gaf.optim.clipping import watched_clipping
from gaf.optim.diagnosis import (
    ALWAYS,
    DIVISOR,
    FEWEST_CLIPS,
    LARGER,
    WORDS,
    GradientFinding,
    diagnose,
)
from gaf.trials.watch import Watcher
from tests.lab.engine import planted
from tests.lab.engine.planted import HEALTHY, NAN_FROM, NOTES, PROBLEMS


def findings(case, tmp_path, steps=40):
    """What a monitor on every optimizer says, attached from outside as gaf doctor does."""
    watcher = Watcher(tmp_path, 300)
    hook = register_optimizer_step_pre_hook(watcher.before_step)
    with watched_clipping(watcher.note), pytest.MonkeyPatch.context() as patch:
        patch.setattr(planted, "clip_grad_norm_", torch.nn.utils.clip_grad_norm_)
        for _ in itertools.islice(planted.training(case), steps):
            pass
    hook.remove()
    (monitor,) = watcher.monitors.values()
    assert {record["step"] for record in monitor.records} == set(range(1, steps + 1))
    return monitor.findings


@pytest.mark.parametrize("case", PROBLEMS)
def test_the_problem_that_was_planted_is_found_and_no_other(case, tmp_path):
    found = findings(case, tmp_path)
    assert {finding.kind for finding in found if finding.problem} == {case}
    assert all(finding.advice for finding in found if finding.problem)


@pytest.mark.parametrize("case", NOTES)
def test_what_is_worth_a_note_is_noted(case, tmp_path):
    assert [(f.kind, f.problem) for f in findings(case, tmp_path)] == [(case, False)]


@pytest.mark.parametrize("case", HEALTHY)
def test_nothing_alarming_in_a_healthy_training(case, tmp_path):
    assert not [str(f) for f in findings(case, tmp_path, 100) if f.problem]


def test_the_sentences(tmp_path):
    said = {case: str(findings(case, tmp_path)[0]) for case in (*PROBLEMS, *NOTES)}
    assert said["clipping always"].startswith(
        "Clipping acted on 100 % of the last 40 steps, on average by a factor 10: it is a learning rate "
        "divided by 10. To clip outliers only, set max_norm to 0.52, which 5 % of the steps exceed"
    )
    assert said["clipping never"] == (
        "Clipping has not acted in the last 40 steps: the largest norm was 0.52, max_norm is 1,000."
    )
    assert "0.weight, 0.bias, 2.weight, 2.bias, 4.weight get no gradient" in said["dead"]
    assert said["large"].startswith(
        "head.weight has 46,000 times the median gradient of the others."
    )
    assert "of the bfloat16 gradients of embed.weight are 0" in said["underflow"]
    assert "they underflow" in said["underflow"]
    assert f"are inf or NaN at step {NAN_FROM}, and so it is in every" in said["nonfinite"]
    assert "100 % of elements are in the linear range" in said["linear"]


def clips(norms, max_norm=1.0):
    return [{"step": i, "norm": norm, "max_norm": max_norm} for i, norm in enumerate(norms)]


def only(norms, optimizer="SGD"):
    (finding,) = diagnose([], clips(norms), optimizer)
    return finding


def test_clipping_by_hand():
    assert diagnose([], clips([2.0] * (FEWEST_CLIPS - 1))) == []
    always = only([20.0] * 600)
    assert always.values["steps"] == 500
    assert always.values["factor"] == pytest.approx(20)
    assert "of the last 500 steps, on average by a factor 20" in always.sentence
    assert "a learning rate divided by 20" in always.sentence
    barely = only([DIVISOR * 0.9] * 100)
    assert (barely.kind, barely.problem) == ("clipping always", False)
    some = only([0.5] * 90 + [2.0] * 10)
    assert (some.kind, some.values["acted"]) == ("clipping sometimes", 0.1)
    assert some.advice == "To clip outliers only, set max_norm to 2, which 5 % of the steps exceed."
    assert only([0.5] * 95 + [2.0] * 5).advice == ""  # it does that already
    share = int(100 * ALWAYS)
    assert only([5.0] * share + [0.5] * (100 - share)).kind == "clipping always"
    assert only([5.0] * (share - 1) + [0.5] * (101 - share)).kind == "clipping sometimes"


def test_a_step_that_a_scaler_skips_has_no_norm():
    assert only([float("inf")] * 50 + [0.5] * 50).values["steps"] == 50
    assert only([float("nan")] * 50 + [3.0] * 50).values["factor"] == pytest.approx(3)


def test_a_constant_factor_cancels_in_adam():
    finding = only([20.0] * 100, "AdamW")
    assert "a constant factor cancels" in finding.sentence
    assert "divide the learning rate" not in finding.advice


def test_the_quantile_that_is_recommended_is_exceeded_by_five_percent():
    norms = [float(i) for i in range(1, 101)]
    assert only(norms).values["high"] == 95.0


def record(name, **values):
    usual = {"step": 1, "group": 0, "name": name, "dtype": "float32", "elements": 100, "zeros": 0}
    return {**usual, "nonfinite": 0, "norm": 1.0, "max": 1.0, "near_smallest": 0.0, **values}


def kinds(records):
    return [finding.kind for finding in diagnose(records)]


def test_thresholds_of_layers():
    rest = [record(name, step=s) for name in "abcd" for s in (1, 2, 3)]
    assert kinds(rest) == []
    below, above = 0.99 * LARGER, 1.01 * LARGER
    assert kinds([*rest, *(record("e", step=s, norm=below) for s in (1, 2, 3))]) == []
    assert kinds([*rest, *(record("e", step=s, norm=above) for s in (1, 2, 3))]) == ["large"]
    assert kinds([*rest, record("e", norm=above)]) == []  # once
    assert kinds([*rest, *(record("e", step=s, zeros=100, norm=0.0) for s in (1, 2, 3))]) == [
        "dead"
    ]
    once = [record("e", step=s, zeros=100 if s < 3 else 99) for s in (1, 2, 3)]
    assert kinds([*rest, *once]) == []  # it has had a gradient


@pytest.mark.parametrize(
    ("dtype", "zeros", "near", "found"),
    [
        ("bfloat16", 60, 0.5, ["underflow"]),
        ("float16", 60, 0.5, ["underflow"]),
        ("float32", 60, 0.5, []),
        ("bfloat16", 40, 0.5, []),
        ("bfloat16", 60, 0.1, []),  # rows of an embedding that no batch has used
    ],
)
def test_thresholds_of_underflow(dtype, zeros, near, found):
    records = [
        record("embed.weight", step=s, dtype=dtype, zeros=zeros, near_smallest=near)
        for s in (1, 2, 3)
    ]
    assert kinds(records) == found


def test_inf_that_comes_and_goes():
    records = [record("a", step=s, nonfinite=int(s in (4, 6))) for s in range(1, 9)]
    (finding,) = diagnose(records)
    assert (
        finding.sentence
        == "1 gradient element of a is inf or NaN at step 4, and so it is in 1 later ones."
    )


def test_findings_are_plain_data():
    finding = only([20.0] * 100)
    assert json.loads(json.dumps(finding.as_dict()))["kind"] == "clipping always"
    assert finding == GradientFinding(finding.kind, True, (), finding.values)
    assert set(WORDS) >= {*PROBLEMS, *NOTES, "clipping sometimes", "bent", "nothing to act on"}


def test_monitor_in_place_of_torchs_clipping():
    w = torch.ones(4, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.0)
    monitor = gaf.Monitor(opt, every=7)
    for step in range(30):
        w.grad = torch.full((4,), float(step))
        norm = monitor.clip_grad_norm_([w], 4.0)
        assert norm.item() == 2 * step
        assert torch.linalg.vector_norm(w.grad).item() == pytest.approx(min(2 * step, 4), rel=1e-4)
        opt.step()
    assert [clip["norm"] for clip in monitor.clips] == [2.0 * step for step in range(30)]
    assert [clip["step"] for clip in monitor.clips] == list(range(1, 31))
    assert [finding.kind for finding in monitor.findings] == ["clipping sometimes"]
