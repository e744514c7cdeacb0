"""Theorem 6 against descents written out on whole saddles, and the time to leave a ball."""

import pytest
import torch

from gaf.functions import Arctan, Tanh
from gaf.lab.theory import escape, saddle
from gaf.lab.theory.families import FAMILIES, one
from gaf.lab.theory.fields import ValueClip
from gaf.lab.theory.problems import Powers
from gaf.lab.theory.trials import tally, without


@pytest.mark.slow
def test_a_thousand_starts_for_every_function():
    generator = torch.Generator().manual_seed(1)
    steep = [f for f in saddle.functions() if f.slope > 1]
    assert len(steep) == len(FAMILIES) * len(saddle.PARAMETERS)
    batches = [saddle.starts(f, generator) for f in saddle.functions()]
    inside = [int(each.meeting().sum()) for each in batches]
    assert [n for f, n in zip(saddle.functions(), inside, strict=True) if f.slope > 1] == [
        1_000
    ] * 15
    total = tally(batches, saddle.PRINTED, cases=15_000)
    assert total.sound.failures == 0
    assert total.printed.failures > 0  # stable coordinates come back
    assert all(x.example for x in without(total, saddle.examples()))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_whole_saddles_step_by_step(family):
    """Descents on separable saddles of four coordinates, without the code under test."""
    loss = Powers(((1.0, 2.0), (-0.7, 2.0), (-2.0, 4.0), (0.3, 4.0)))
    unstable = [1, 2]
    for parameters in ((0.1, 20.0), (0.1, 500.0)):
        f = family(*parameters)
        generator = torch.Generator().manual_seed(0)
        start = 0.5 * (torch.rand(1_000, 4, generator=generator, dtype=torch.float64) - 0.5)
        below = loss.gradient(start).abs() < f.crossover
        plain = active = start
        compared = 0
        for _ in range(50):
            g = loss.gradient(plain)
            below &= g.abs() < f.crossover
            plain, active = plain - 0.1 * g, active - 0.1 * f(loss.gradient(active))
            far, plain_far = (active - start).abs(), (plain - start).abs()
            assert (far >= plain_far - 1e-15)[
                below & torch.tensor([k in unstable for k in range(4)])
            ].all()
            compared += int(below[:, unstable].sum())
        assert compared > 10_000


def test_a_restraining_function_would_be_behind():
    """The check sees it: below its crossover a function is ahead, a shallow one never."""
    generator = torch.Generator().manual_seed(0)
    shallow = saddle.starts(Tanh(0.01, 20.0), generator)
    assert not shallow.claim.any()


def test_one_coordinate_by_hand():
    x = [torch.tensor([v], dtype=torch.float64) for v in (-1.0, 2.0, 1.0, 0.1)]
    found = saddle.theorem_6(one(Arctan(0.1, 20.0)), *x)
    assert "after 1 steps at 1.1 without and 1.015 with f" in found.describe(0)
    assert not found.assumptions[saddle.BELOW].item()


def test_exit_times_by_hand():
    """On −w²/2 with η = 0.1 a step multiplies w by 1.1; clipped at 0.05 it adds 0.005."""
    loss = Powers(((-1.0, 2.0),))
    start = torch.tensor([[0.05], [0.099], [0.0]], dtype=torch.float64)
    times, path = escape.exit_times(loss, start, lambda g: 0.1 * g)
    assert times.tolist() == [8, 1, escape.MOST + 1]  # 0.05 · 1.1⁸ = 0.107
    assert path[3, 0].item() == pytest.approx(0.05 * 1.1**3)
    times, _ = escape.exit_times(loss, start[:1], lambda g: 0.1 * ValueClip(0.05)(g))
    assert times.tolist() == [10]


def test_adam_is_that_of_torch():
    p = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    theirs, ours = torch.optim.Adam([p]), escape.adam()
    w = torch.zeros(3, dtype=torch.float64)
    for k in range(5):
        g = torch.tensor([1.0, -0.01, 1e-5 * k], dtype=torch.float64)
        p.grad = g.clone()
        theirs.step()
        w = w - ours(g)
    torch.testing.assert_close(p.detach(), w, rtol=1e-9, atol=1e-15)


def test_starts_fill_the_ball():
    w = escape.in_ball(20_000, 3, torch.Generator().manual_seed(0))
    r = w.norm(dim=-1)
    assert r.max() <= escape.RADIUS
    assert (r < escape.RADIUS / 2).double().mean().item() == pytest.approx(1 / 8, abs=0.01)


def test_a_gaf_is_slower_only_because_stable_coordinates_contract():
    rows = {row.method: row for row in escape.escapes("strict", escape.default_functions())}
    gafs = [row for name, row in rows.items() if name.startswith(("arctan", "tanh", "log"))]
    assert len(gafs) == 6
    assert all(row.slower == row.slower_stable for row in gafs)
    assert all(row.slower_restrained == 0 for row in gafs)
    assert all(row.median < rows["original"].median for row in gafs)
    assert 0.02 < rows["arctan(0.1, 500)"].slower < 0.15
    assert rows["original"].slower == 0
    assert {
        "value clipping 0.05",
        "norm clipping 0.05",
        "Gaussian noise 0.01",
        "Adam 0.001",
    } <= set(rows)


def test_a_saddle_that_is_not_known():
    with pytest.raises(
        ValueError, match="no saddle named 'horse'; known are strict, monkey, plateau"
    ):
        escape.escapes("horse", [])
