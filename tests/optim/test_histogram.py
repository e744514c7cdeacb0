"""The monitor's histogram of what f sees: by numpy, over the whole range, at its edges."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

import gaf
from tests.optim.helpers import F, assert_same, make, make_model, snapshot, train


def histogram(grad: torch.Tensor, **options) -> dict[str, float]:
    w = torch.zeros_like(grad, requires_grad=True)
    w.grad = grad.clone()
    monitor = gaf.Monitor(histogram=True, **options)
    gaf.activate_grad_([w], F, monitor=monitor)
    (record,) = monitor.records
    return record["histogram"]


def test_shares_by_numpy():
    rng = np.random.default_rng(0)
    g = rng.standard_normal(20_000) * 10 ** rng.uniform(-30, 10, 20_000)
    found = histogram(torch.from_numpy(g), sample=g.size)
    edges = np.arange(-45, 39.25, 0.25)
    counts, _ = np.histogram(np.log10(np.abs(g)), edges)
    expected = {
        f"{edge:g}": count / g.size for edge, count in zip(edges, counts, strict=False) if count
    }
    assert found == pytest.approx(expected)
    assert list(found) == sorted(found, key=float)
    assert sum(found.values()) == pytest.approx(1)


def test_zeros_and_what_is_not_finite_are_in_no_bin():
    g = torch.tensor([0.0, -0.0, 2e-3, -2e-3, 5.0, math.inf, -math.inf, math.nan])
    assert histogram(g) == pytest.approx({"-2.75": 2 / 3, "0.5": 1 / 3})
    assert histogram(torch.zeros(3)) == {}
    assert histogram(torch.zeros(0)) == {}


@pytest.mark.parametrize(
    ("value", "edge"),
    [(1e-300, "-45"), (1e-45, "-45"), (3e38, "38.25"), (1e300, "38.75"), (1e-3, "-3")],
)
def test_the_ends_take_what_lies_beyond(value, edge):
    assert histogram(torch.tensor([value], dtype=torch.float64)) == {edge: 1.0}


def test_a_large_tensor_costs_a_sample():
    g = torch.randn(1_000_000, generator=torch.Generator().manual_seed(0))
    few, all_ = histogram(g, sample=10_000), histogram(g, sample=2**20)
    for edge, share in all_.items():  # four standard errors of a sample of 10 000
        assert abs(few.get(edge, 0) - share) < 4 * math.sqrt(share / 10_000) + 1e-4, edge


def test_it_is_asked_for_and_changes_nothing(tmp_path):
    model, judge = make_model(), make_model()
    opt, other = (make("ours:sgd-momentum", m.parameters()) for m in (model, judge))
    monitor, plain = gaf.Monitor(opt, histogram=True), gaf.Monitor(other)
    train(model, opt, 2)
    train(judge, other, 2)
    assert_same(snapshot(opt), snapshot(other))
    assert "histogram" not in plain.records[0]
    for a, b in zip(monitor.records, plain.records, strict=True):
        assert {key: value for key, value in a.items() if key != "histogram"} == b
    monitor.write_jsonl(tmp_path / "records.jsonl")
    lines = (tmp_path / "records.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[1])["histogram"] == monitor.records[1]["histogram"]
