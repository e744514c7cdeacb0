"""gaf.Auto against a judge in plain Python, over every way a step is taken."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import gaf
from gaf.optim.auto import CURVES
from tests.optim import oracle
from tests.optim.helpers import AUTOS, CONTROLS, make_model, train
from tests.optim.rounding import atan

# Observed: 7e-16 of the largest weight in float64, 3e-7 in float32; torch and the judge add in another order.
TOLERANCE = {torch.float64: 1e-13, torch.float32: 3e-6}
HYPER = {"momentum": 0.9, "weight_decay": 0.1, "dampening": 0.3}
WAYS = {"single": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def clipped(x):
    return min(max(x, -2.0), 2.0)


# What alpha pi / 4 multiplies, of x / m: all are 1 at 1, and the clip ends where the arctan does.
SHAPES = {
    "arctan": lambda x: atan(x) * (4 / math.pi),
    "line": lambda x: x,
    "clip": clipped,
    "sign": lambda x: math.copysign(1.0, x) if x else 0.0,
}


class Judged(oracle.Sgd):
    def f(self, x):
        return self.alpha * math.pi / 4 * SHAPES[self.function](self.beta * x)


class Judge:
    """Auto on the numbers of one tensor, from docs/auto.md: plain lists, sorted by Python."""

    def __init__(self, tensor, placement, auto, lr):
        self.auto, self.lr0, self.placement = auto, lr, placement
        self.logs: list[float] = []
        weights = tensor.flatten().tolist()
        squares = sum(w * w for w in weights) / len(weights)
        self.size = (math.sqrt(squares) if tensor.ndim > 1 else 0.0) or 0.1
        rule = {"nesterov": False, "maximize": False, "placement": placement, **HYPER}
        self.rules = [Judged(auto.function, alpha=1, beta=1, w=w, **rule) for w in weights]

    def inputs(self, grads, lr):
        """What f sees, by the rule with f recorded."""
        seen = []
        for rule, grad in zip(self.rules, grads, strict=True):
            tap = Judged(**vars(rule))
            tap.f = lambda x: seen.append(x) or x  # type: ignore[method-assign]
            tap.step(grad, lr)
        return seen

    def step(self, grads, lr):
        magnitudes = sorted(abs(x) for x in self.inputs(grads, lr) if x)
        if magnitudes:
            self.logs.append(math.log(magnitudes[int(self.auto.quantile * (len(magnitudes) - 1))]))
        decay = self.auto.decay
        shares = [decay ** (len(self.logs) - 1 - i) for i in range(len(self.logs))]
        mean = sum(map(math.prod, zip(shares, self.logs, strict=True))) / (sum(shares) or 1)
        alpha = self.auto.step * self.size / self.lr0
        alpha *= lr if self.placement == "update" else 1
        for rule, grad in zip(self.rules, grads, strict=True):
            rule.alpha, rule.beta = alpha, 1 / math.exp(mean)
            rule.step(grad, lr)


def disagreement(dtype, placement, way, auto, judged=None):
    generator = torch.Generator().manual_seed(1)
    shapes = ((1,), (7,), (1, 7), (20, 10))
    params = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    params.append(torch.zeros(3, 1, dtype=dtype))
    lr = 0.2
    opt = gaf.SGD(params, lr=lr, activation=auto, placement=placement, **HYPER, **WAYS[way])
    judges = [Judge(p, placement, judged or auto, lr) for p in params]
    for step in range(5):
        opt.param_groups[0]["lr"] = lr = 0.2 / (1 + step)
        for i, (p, judge) in enumerate(zip(params, judges, strict=True)):
            scale = 10.0 ** (-3 * i - step)
            p.grad = (scale * torch.randn(p.shape, generator=generator)).to(dtype)
            p.grad.view(-1)[::4] = 0
            judge.step(p.grad.flatten().tolist(), lr)
        opt.step()
    pairs = [
        (w, rule.w)
        for p, judge in zip(params, judges, strict=True)
        for w, rule in zip(p.flatten().tolist(), judge.rules, strict=True)
    ]
    return max(abs(a - b) for a, b in pairs) / max(abs(b) for _, b in pairs)


# what has no kernel is compiled, which takes seconds
FUNCTIONS_AND_WAYS = [
    pytest.param(function, way, marks=pytest.mark.slow)
    if (way, function) in {("fused", "line"), ("fused", "sign")}
    else (function, way)
    for function in SHAPES
    for way in WAYS
]


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("function", "way"), FUNCTIONS_AND_WAYS)
def test_the_judge_agrees(function, way, dtype, placement):
    auto = gaf.Auto(0.1, 0.7, 0.8, function=function)
    assert disagreement(dtype, placement, way, auto) < TOLERANCE[dtype]


@pytest.mark.parametrize(
    "other",
    [
        *(gaf.Auto(0.1, 0.7, 0.7), gaf.Auto(0.1, 0.6, 0.8), gaf.Auto(0.11, 0.7, 0.8)),
        *(gaf.Auto(0.1, 0.7, 0.8, function=name) for name in CONTROLS),
    ],
)
def test_the_judge_is_strict(other):
    auto = gaf.Auto(0.1, 0.7, 0.8)
    assert disagreement(torch.float64, "momentum", "fused", auto, other) > 1e-4


class RatioJudge:
    """Auto on Adam's ratio in one tensor, from docs/auto.md, in plain Python."""

    def __init__(self, tensor, auto, lr, betas, eps):
        self.w = tensor.flatten().tolist()
        self.auto, self.lr0, self.betas, self.eps = auto, lr, betas, eps
        self.size = math.sqrt(sum(w * w for w in self.w) / len(self.w)) if tensor.ndim > 1 else 0.1
        self.m, self.v = [0.0] * len(self.w), [0.0] * len(self.w)
        self.pace, self.count = 0.0, 0

    def step(self, grads, lr):
        (beta1, beta2), before = self.betas, self.m
        self.count += 1
        self.v = [beta2 * v + (1 - beta2) * g * g for v, g in zip(self.v, grads, strict=True)]
        self.m = [beta1 * m + (1 - beta1) * g for m, g in zip(before, grads, strict=True)]
        roots = [math.sqrt(v / (1 - beta2**self.count)) for v in self.v]
        now = [math.atan(g / root) if root else 0 for g, root in zip(grads, roots, strict=True)]
        old = [m / root if root else 0 for m, root in zip(before, roots, strict=True)]
        norms = math.hypot(*now) * math.hypot(*old)
        cosine = sum(map(math.prod, zip(now, old, strict=True))) / norms if norms else 0.0
        self.pace = min(max(self.pace + 0.1 * cosine, math.log(1e-3)), math.log(10))
        alpha = 3 * self.auto.step * self.size * math.exp(self.pace) / self.lr0
        for i, (m, root) in enumerate(zip(self.m, roots, strict=True)):
            ratio = m / (1 - beta1**self.count) / (root + self.eps)
            self.w[i] -= lr * alpha * math.atan(ratio)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("placement", ["momentum", "update"])
def test_the_judge_of_adams_ratio_agrees(placement, way):
    generator = torch.Generator().manual_seed(5)
    params = [torch.randn(shape, generator=generator).double() for shape in ((7,), (20, 10))]
    auto, lr, betas, eps = gaf.Auto(0.1), 0.2, (0.8, 0.9), 1e-6
    judges = [RatioJudge(p, auto, lr, betas, eps) for p in params]
    opt = gaf.Adam(*(params, lr, betas, eps), activation=auto, placement=placement, **WAYS[way])
    for step in range(6):
        opt.param_groups[0]["lr"] = lr / (1 + step)
        for p, judge in zip(params, judges, strict=True):
            # gradients that agree at first and turn round
            p.grad = (1 if step < 3 else -1) + torch.randn(p.shape, generator=generator).double()
            judge.step(p.grad.flatten().tolist(), lr / (1 + step))
        opt.step()
    for p, judge in zip(params, judges, strict=True):
        expected = torch.tensor(judge.w, dtype=p.dtype).view_as(p)
        torch.testing.assert_close(p, expected, rtol=1e-12, atol=1e-12)  # observed: 1e-15
        assert opt.state[p]["gaf_auto"][3].item() == pytest.approx(judge.pace)


def test_the_level_of_adams_rate_cancels():
    def run(lr):
        model = make_model()
        train(model, gaf.AdamW(model.parameters(), lr=lr, weight_decay=0, activation="auto"), 4)
        return torch.cat([p.flatten() for p in model.parameters()])

    torch.testing.assert_close(run(1e-3), run(1.0))


def test_every_curve_is_judged():
    assert list(SHAPES) == list(CURVES)


@pytest.mark.parametrize("function", CURVES)
def test_a_curve_has_its_slope_and_bound_and_is_matched_at_the_quantile(function):
    curve, alpha, m = CURVES[function], 0.3, 7e-3
    values = torch.tensor([alpha, 1 / m], dtype=torch.float64)
    x = torch.tensor([-1e9, -m, -0.0, 0.0, 1e-9 * m, m, 2 * m, 1e9, math.nan], dtype=torch.float64)
    y = curve.formula(torch, x, *values).tolist()
    slope, bound = (float(fact(*values)) for fact in (curve.slope, curve.bound))
    assert y[5] == -y[1] == pytest.approx(alpha * math.pi / 4)
    assert math.copysign(1, y[2]) == -1
    assert y[2] == y[3] == 0
    assert math.isnan(y[8])
    if function == "line":
        assert bound == math.inf
    else:
        assert y[7] == -y[0] == pytest.approx(bound)
    if function == "sign":
        assert slope == math.inf
    else:
        assert y[4] / x[4].item() == pytest.approx(slope)
    if function == "clip":
        assert y[6] == pytest.approx(float(CURVES["arctan"].bound(*values)))


def test_the_level_of_the_learning_rate_cancels():
    """A schedule does not."""

    def run(lr, schedule):
        model = make_model()
        opt = gaf.SGD(model.parameters(), lr=lr, momentum=0.9, activation=gaf.Auto())
        for step, factor in enumerate(schedule):
            opt.param_groups[0]["lr"] = factor * lr
            train(model, opt, range(step, step + 1))
        return torch.cat([p.flatten() for p in model.parameters()])

    torch.testing.assert_close(run(0.001, (1, 0.5, 0.1)), run(1.0, (1, 0.5, 0.1)))
    assert not torch.allclose(run(0.1, (1, 1, 1)), run(0.1, (1, 0.5, 0.1)))


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
@pytest.mark.parametrize("auto", AUTOS)
def test_vanished_gradients_move_weights_as_far(auto, placement):
    """Gradients of 1e-9 and of 1 give the same steps."""

    def run(scale):
        w = nn.Parameter(start.clone())
        opt = gaf.SGD([w], lr=0.1, momentum=0.9, activation=auto, placement=placement)
        for step in range(3):
            w.grad = scale * torch.sin(torch.arange(300.0) + step).double().view(3, 100)
            opt.step()
        return w.detach()

    start = torch.linspace(-1, 1, 300).double().view(3, 100)
    torch.testing.assert_close(run(1e-9), run(1.0))
    assert (run(1.0) - start).abs().max() > 0.01
