"""gaf.QuantileClip against a judge in plain Python. What it shares with Auto is in test_adaptive.py."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import gaf
from gaf.optim.quantile_clip import CURVE

WAYS = {"single": {"foreach": False}, "foreach": {"foreach": True}, "usual": {}}


def bent(x: float, m: float) -> float:
    if abs(x) <= m:
        return x
    return math.copysign(m * (1 + math.atan(abs(x) / m - 1)), x)


class Judge:
    """The numbers of one tensor under SGD with momentum, from docs/auto.md."""

    def __init__(self, weights, clip, lr, momentum):
        self.weights, self.clip, self.lr, self.momentum = weights, clip, lr, momentum
        self.velocities = [0.0] * len(weights)
        self.logs: list[float] = []

    def step(self, grads):
        magnitudes = sorted(abs(g) for g in grads if g)
        place = int(self.clip.quantile * (len(magnitudes) - 1))
        self.logs.append(math.log(magnitudes[place]))
        shares = [self.clip.decay**i for i in reversed(range(len(self.logs)))]
        m = math.exp(sum(map(math.prod, zip(shares, self.logs, strict=True))) / sum(shares))
        for i, g in enumerate(grads):
            self.velocities[i] = self.momentum * self.velocities[i] + bent(g, m)
            self.weights[i] -= self.lr * self.velocities[i]


@pytest.mark.parametrize("way", WAYS)
def test_the_judge_agrees(way):
    generator = torch.Generator().manual_seed(3)
    params = [torch.randn(n, 7, generator=generator).double() for n in (1, 5, 20)]
    clip = gaf.QuantileClip(0.8, decay=0.7)
    judges = [Judge(p.flatten().tolist(), clip, 0.2, 0.9) for p in params]
    opt = gaf.SGD(params, lr=0.2, momentum=0.9, activation=clip, **WAYS[way])
    for step in range(6):
        for p, judge in zip(params, judges, strict=True):
            spike = 1000.0 if step == 4 else 1.0
            p.grad = spike * torch.randn(p.shape, generator=generator).double()
            judge.step(p.grad.flatten().tolist())
        opt.step()
    for p, judge in zip(params, judges, strict=True):
        expected = torch.tensor(judge.weights, dtype=p.dtype).view_as(p)
        torch.testing.assert_close(p, expected, rtol=1e-13, atol=1e-13)  # observed: 1e-15


def clean(model, opt, steps, spoilt=()):
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        for p in model.parameters():
            signs = torch.randint(0, 2, p.shape, generator=generator) * 2.0 - 1
            p.grad = signs * (1000.0 if step in spoilt else 1.0)
        opt.step()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("ours", "theirs"), [(gaf.SGD, torch.optim.SGD), (gaf.AdamW, torch.optim.AdamW)]
)
def test_normal_gradients_give_the_step_of_torch(ours, theirs, way):
    """Gradients of one magnitude are all at the quantile: the step is torch's own."""
    models = [nn.Linear(20, 10), nn.Linear(20, 10)]
    models[1].load_state_dict(models[0].state_dict())
    foreach = WAYS[way].get("foreach", True)
    clean(
        models[0], ours(models[0].parameters(), lr=0.1, activation="quantileclip", **WAYS[way]), 5
    )
    clean(models[1], theirs(models[1].parameters(), lr=0.1, foreach=foreach), 5)
    for ours_, theirs_ in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(ours_, theirs_, rtol=2e-6, atol=1e-7)


def test_a_spike_moves_weights_by_its_bound_at_most():
    w = nn.Parameter(torch.zeros(20, 20))
    opt = gaf.SGD([w], lr=0.1, activation=gaf.QuantileClip())
    for spike in (1.0, 1.0, 1e6):
        before = w.detach().clone()
        w.grad = spike * torch.ones_like(w)
        opt.step()
    weight, total, *_ = opt.state[w]["gaf_auto"].tolist()
    m = math.exp(total / weight)
    moved = (w.detach() - before).abs().max().item()
    assert m < 120  # the running quantile has taken up a third of the spike's logarithm
    assert 0.1 * m < moved <= 0.1 * (1 + math.pi / 2) * m * 1.0001


def test_the_learning_rate_keeps_its_level():
    moved = []
    for lr in (0.1, 0.2):
        w = nn.Parameter(torch.zeros(3, 3))
        opt = gaf.SGD([w], lr=lr, activation=gaf.QuantileClip())
        w.grad = torch.ones_like(w)
        opt.step()
        moved.append(w.detach())
    torch.testing.assert_close(moved[0], torch.full((3, 3), -0.1))
    torch.testing.assert_close(moved[1], torch.full((3, 3), -0.2))


def test_the_curve_has_its_slope_and_bound_and_no_corner():
    m = torch.tensor(0.3, dtype=torch.float64)
    values = (m, 1 / m)
    x = torch.tensor([0.0, 0.1, 0.3, math.inf, -math.inf, math.nan], dtype=torch.float64)
    y = CURVE.formula(torch, x, *values)
    assert y[:3].tolist() == x[:3].tolist()
    assert y[3].item() == pytest.approx(float(CURVE.bound(*values)))
    assert y[4].item() == -y[3].item()
    assert math.isnan(y[5])
    assert float(CURVE.slope(*values)) == pytest.approx(1)
    near = 0.3 + torch.tensor([-1e-4, 0, 1e-4], dtype=torch.float64)
    left, right = CURVE.formula(torch, near, *values).diff().tolist()
    assert right == pytest.approx(left, rel=1e-6)


def test_values_names_and_placement():
    assert gaf.parse("quantileclip(0.9, 0.5)") == gaf.QuantileClip(0.9, decay=0.5)
    opt = gaf.SGD([torch.zeros(2)], lr=0.1, momentum=0.9, activation="quantileclip")
    assert opt.param_groups[0]["gaf_placement"] == "gradient"
    for wrong in ({"quantile": 1.0}, {"quantile": 0}, {"decay": 1}, {"decay": -0.1}):
        with pytest.raises(gaf.GafError, match=next(iter(wrong))):
            gaf.QuantileClip(**wrong)
