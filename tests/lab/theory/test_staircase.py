"""Staircase losses: gradient, loss and slopes against quadrature and by hand."""

import math

import pytest
import torch

from gaf.functions import Arctan
from gaf.lab.theory.curvature import of_points, of_staircase
from gaf.lab.theory.families import draw, one
from gaf.lab.theory.staircase import draw_staircase, steps

F = one(Arctan(0.1, 20.0))
SIDE = ((1.0, 0.04), (10.0, 0.12), (100.0, 0.2))
LOW, HIGH = (torch.tensor([x], dtype=torch.float64) for x in (0.04, 0.12))


def random_losses(n=2, cases=50):
    generator = torch.Generator().manual_seed(0)
    f = draw(Arctan, cases, generator, slopes=(1.1, 50.0))
    low, high = 0.5 * f.unit_slope, 1.5 * f.crossover
    return f, draw_staircase(f.derivative, low, high, n, generator), low, high


def test_places_and_losses_by_hand():
    loss = steps(SIDE)
    w = [0.04, 0.04 + 0.008, 0.04 + 0.008 + 0.0008]  # Δg / h on each step
    assert loss.places[0, 0].tolist() == pytest.approx([-x for x in reversed(w)] + w)
    at = torch.tensor([[0.02], [0.048], [-0.048], [0.06]], dtype=torch.float64)
    every = loss[torch.zeros(4, dtype=torch.long)]
    beyond = 0.12 + 100 * (0.06 - 0.048)  # the last step goes on
    assert every.gradient(at)[:, 0].tolist() == pytest.approx([0.02, 0.12, -0.12, beyond])
    areas = [0.02**2 / 2, 0.04**2 / 2 + 0.008 * (0.04 + 0.12) / 2]
    assert every.loss(at)[:3, 0].tolist() == pytest.approx([*areas, areas[1]])


def test_the_loss_is_the_integral_of_its_gradient():
    f, loss, *_ = random_losses()
    w = loss.random_points(torch.Generator().manual_seed(1))
    assert (w >= loss.places[..., 0]).all()
    assert (w <= loss.places[..., -1]).all()
    for potential, field in ((None, lambda g: g), (f.integral, f)):
        total = torch.zeros_like(w)
        for t in (torch.arange(2_000, dtype=torch.float64) + 0.5) / 2_000:
            total += field(loss.gradient(t * w)) * w / 2_000
        torch.testing.assert_close(total, loss.loss(w, potential), rtol=1e-3, atol=0)


def test_gradients_at_the_places_are_the_knots():
    _, loss, *_ = random_losses()
    for k in range(loss.knots.shape[-1]):
        torch.testing.assert_close(
            loss.gradient(loss.places[..., k]), loss.knots[..., k], rtol=1e-9, atol=1e-12
        )
    zero = torch.zeros(len(loss.knots), 2, dtype=torch.float64)
    torch.testing.assert_close(loss.gradient(zero), zero, rtol=0, atol=1e-12)


def test_exact_slopes_are_those_of_many_points():
    f, loss, low, high = random_losses()
    exact = of_staircase(loss, f.derivative, low, high)
    for case in range(10):
        g = torch.linspace(0, 1, 40_001, dtype=torch.float64)[:, None]
        ends = loss.knots[case, :, 0], loss.knots[case, :, -1]
        g = ends[0] + g * (ends[1] - ends[0])
        inner = loss.knots[case, :, 1:-1].contiguous()
        at = torch.searchsorted(inner, g.T.contiguous()).T
        h = loss.heights[case].T.gather(0, at)
        slope = f[torch.tensor([case])].derivative(g[None])[0] * h
        seen = of_points(g, slope, low[case].item(), high[case].item())
        for part in ("low", "band", "high"):
            ours, theirs = getattr(exact, part), getattr(seen, part)
            torch.testing.assert_close(ours.least[case], theirs.least[0], rtol=2e-2, atol=0)
            torch.testing.assert_close(ours.greatest[case], theirs.greatest[0], rtol=2e-2, atol=0)
            assert (ours.least[case] <= theirs.least[0] * (1 + 1e-12)).all()
            assert (ours.greatest[case] >= theirs.greatest[0] * (1 - 1e-12)).all()


def test_segments_by_hand():
    plain = of_staircase(steps(SIDE), torch.ones_like, LOW, HIGH)
    assert [x.least.item() for x in (plain.low, plain.band, plain.high)] == [1, 10, 100]
    assert (plain.lipschitz.item(), plain.convexity.item()) == (100, 1)
    active = of_staircase(steps(SIDE), F.derivative, LOW, HIGH)

    def slope(g):
        return 2 / (1 + (20 * g) ** 2)

    assert active.low.greatest.item() == pytest.approx(slope(0))
    assert active.low.least.item() == pytest.approx(slope(0.04))
    assert active.band.greatest.item() == pytest.approx(10 * slope(0.04))
    assert active.high.greatest.item() == pytest.approx(100 * slope(0.12))
    assert active.high.least.item() == pytest.approx(100 * slope(0.2))
    assert active.lipschitz.item() == pytest.approx(100 * slope(0.12))
    assert active.convexity.item() == pytest.approx(slope(0.04))
    assert all(x.item() for x in (active.lipschitz_rises, active.convexity_rises))
    assert all(x.item() for x in (active.lipschitz_skips_band, active.convexity_skips_band))


def test_a_coordinate_without_high_gradients_does_not_rise():
    flat = of_staircase(steps(((1.0, 0.05),)), torch.ones_like, LOW, HIGH)
    assert flat.high.least.item() == math.inf
    assert flat.high.steepest.item() == -math.inf
    assert not flat.lipschitz_rises.item()
    assert not flat.convexity_rises.item()


def test_negative_slopes_count_for_the_lipschitz_constant():
    g = torch.tensor([[0.01], [0.05], [0.2]], dtype=torch.float64)
    found = of_points(g, torch.tensor([[-7.0], [1.0], [3.0]], dtype=torch.float64), 0.04, 0.12)
    assert (found.lipschitz.item(), found.convexity.item()) == (7, -7)
    assert not found.lipschitz_rises.item()
    assert found.convexity_rises.item()
