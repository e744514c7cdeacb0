"""gaf.Scaled against a judge in plain Python; what it shares with others is in test_adaptive.py."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import gaf
from gaf.optim.sizes import SIZES
from tests.optim import oracle
from tests.optim.helpers import make_model, train

WAYS = {"single": {"foreach": False}, "foreach": {"foreach": True}, "usual": {}}
CASES = {
    "norm": gaf.Scaled(0.7, 3.0),
    "norm with eps": gaf.Scaled(1.0, 2.0, eps=0.3, function="arctan"),
    "running norm": gaf.Scaled(0.7, 3.0, decay=0.8, function="softsign"),
    "max": gaf.Scaled(0.7, 3.0, by="max", keep=1.0, function="algebraic"),
    "top": gaf.Scaled(1 / math.pi, 2 * math.pi, by="top", keep=1.0, function="arctan"),
    "median": gaf.Scaled(0.5, 1.5, by=0.5, keep=0.5, function="log"),
}
HYPER = {"momentum": 0.9, "weight_decay": 0.1, "dampening": 0.3}


def size(f, xs):
    if f.by == "norm":
        return math.hypot(*xs)
    if f.by == "max":
        return max(map(abs, xs))
    if f.by == "top":
        return abs(max(xs))
    magnitudes = sorted(abs(x) for x in xs if x)
    return magnitudes[int(f.by * (len(magnitudes) - 1))]


class Judge:
    """One tensor under a rule of the oracle, of which each element has a copy."""

    def __init__(self, f, rules):
        self.f, self.rules, self.logs = f, rules, []

    def step(self, grads, lr):
        seen = []
        for rule, grad in zip(self.rules, grads, strict=True):
            tap = replace(rule, w=float(rule.w))
            tap.f = lambda x: seen.append(float(x)) or x  # type: ignore[method-assign]
            tap.step(grad, lr)
        self.logs.append(math.log(size(self.f, seen)))
        shares = [self.f.decay**i for i in reversed(range(len(self.logs)))]
        s = math.exp(math.fsum(map(math.prod, zip(shares, self.logs, strict=True))) / sum(shares))
        s += self.f.eps
        for rule, grad in zip(self.rules, grads, strict=True):
            rule.alpha, rule.beta = self.f.alpha * s**self.f.keep, self.f.beta / s
            rule.step(grad, lr)


def judges_of(params, f, rule):
    return [
        Judge(f, [rule(function=f.function, alpha=1, beta=1, w=w) for w in p.flatten().tolist()])
        for p in params
    ]


def compare(opt, params, judges, maximize=False):
    generator = torch.Generator().manual_seed(2)
    for step in range(4):
        opt.param_groups[0]["lr"] = lr = 0.2 / (1 + step)
        for i, (p, judge) in enumerate(zip(params, judges, strict=True)):
            scale = 10.0 ** (-2 * i - step)
            p.grad = scale * torch.randn(p.shape, generator=generator, dtype=p.dtype)
            judge.step(p.grad.flatten().tolist(), lr)
        opt.step()
    for p, judge in zip(params, judges, strict=True):
        expected = torch.tensor([float(r.w) for r in judge.rules], dtype=p.dtype).view_as(p)
        torch.testing.assert_close(p, expected, rtol=1e-12, atol=1e-13)  # observed: 2e-14


def weights():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).double() for shape in ((1,), (7,), (5, 4))]


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_the_judge_of_sgd_agrees(case, way, placement):
    params, maximize = weights(), case == "top"

    def rule(**given):
        return oracle.Sgd(**given, nesterov=False, maximize=maximize, placement=placement, **HYPER)

    told = {"activation": CASES[case], "placement": placement, "maximize": maximize}
    opt = gaf.SGD(params, lr=0.2, **told, **HYPER, **WAYS[way])
    compare(opt, params, judges_of(params, CASES[case], rule))


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ["norm", "max", "median"])
def test_the_judge_of_adam_agrees(case, way, placement):
    params = weights()
    hyper = {"betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1}

    def rule(**given):
        told = {"decoupled": False, "amsgrad": False, "maximize": False, "placement": placement}
        return oracle.Adam(**given, **told, **hyper)

    opt = gaf.Adam(
        params, lr=0.2, activation=CASES[case], placement=placement, **hyper, **WAYS[way]
    )
    compare(opt, params, judges_of(params, CASES[case], rule))


def test_every_size_is_judged():
    assert {f.by for f in CASES.values() if isinstance(f.by, str)} == set(SIZES)


@pytest.mark.parametrize("by", [*SIZES, 0.5])
@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_the_level_of_gradients_does_not_matter_or_is_kept(placement, by):
    """Gradients of 1e-6 and of 1 give the same steps, and with keep=1 steps of 1e-6."""

    def run(scale, keep):
        w = nn.Parameter(torch.zeros(3, 100, dtype=torch.float64))
        f = gaf.Scaled(by=by, keep=keep)
        opt = gaf.SGD([w], lr=0.1, momentum=0.9, activation=f, placement=placement)
        for step in range(3):
            w.grad = scale * torch.sin(torch.arange(300.0) + step).double().view(3, 100)
            opt.step()
        return w.detach()

    torch.testing.assert_close(run(1e-6, 0), run(1.0, 0))
    torch.testing.assert_close(run(1e-6, 1) * 1e6, run(1.0, 1))
    assert run(1.0, 0).abs().max() > 1e-3


@pytest.mark.parametrize("by", SIZES)
@pytest.mark.parametrize("placement", ["gradient", "momentum"])
def test_no_size_and_one_that_is_not_finite(by, placement):
    """Zeros stay where they are; beside an inf the size is the last one, and NaN stays NaN."""
    w = torch.zeros(3)
    opt = gaf.SGD([w], lr=1.0, activation=gaf.Scaled(by=by), placement=placement)
    for grad in ([0.0, 0.0, 0.0], [3.0, 3.0, 3.0]):
        before = w.clone()
        w.grad = torch.tensor(grad)
        opt.step()
    moved = (before - w)[0].item()
    assert torch.equal(before, torch.zeros(3))
    assert moved > 0.5
    before = w.clone()
    w.grad = torch.tensor([3.0, math.inf, math.nan])
    opt.step()
    assert (before - w)[0].item() == pytest.approx(moved)
    assert (before - w)[1].item() == pytest.approx(1)
    assert math.isnan(w[2])


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1.0, 1e25])
@pytest.mark.parametrize("n", [1, 100, 5000])
def test_a_norm_whose_squares_leave_float32(scale, n):
    x = scale * torch.randn(n, generator=torch.Generator().manual_seed(n))
    found = SIZES["norm"].part(x, torch.float64).sqrt()
    torch.testing.assert_close(found, x.double().norm(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
@pytest.mark.parametrize("by", SIZES)
def test_other_types(dtype, placement, by):
    """As in float64, to the precision of the weights; a complex number is two real ones."""

    def run(dtype):
        generator = torch.Generator().manual_seed(4)
        w = torch.ones(2, 3, dtype=dtype)
        f = gaf.Scaled(by=by, function="arctan")
        opt = gaf.SGD([w], lr=0.1, momentum=0.9, activation=f, placement=placement)
        for _ in range(3):
            parts = torch.randn(2, 3, 2, generator=generator).half().double()
            whole = torch.view_as_complex(parts)
            w.grad = (whole if dtype.is_complex else parts[..., 0]).to(dtype)
            opt.step()
        return w

    wide = torch.complex128 if dtype.is_complex else torch.float64
    digits = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.complex64: 1e-6}[dtype]
    torch.testing.assert_close(run(dtype).to(wide), run(wide), rtol=digits, atol=digits)


@pytest.mark.parametrize("by", ["norm", "max", "top"])
def test_zeros_that_a_sparse_gradient_does_not_store_are_elements_too(by):
    stored = torch.sparse_coo_tensor([[1, 3]], [[-2.0, -3.0], [-5.0, -1.0]], (5, 2))
    weights = []
    for g in (stored, stored.to_dense()):
        w = torch.zeros(5, 2, requires_grad=True)
        w.grad = g
        gaf.SGD([w], lr=1.0, activation=gaf.Scaled(by=by), placement="gradient").step()
        weights.append(w.detach())
    torch.testing.assert_close(*weights)


def test_sparse_gradients():
    table = nn.Embedding(5, 3, sparse=True)
    before = table.weight.detach().clone()
    opt = gaf.SGD(table.parameters(), lr=1.0, activation="scaled")
    table(torch.tensor([1, 3])).sum().backward()
    opt.step()
    moved = torch.zeros(5, 3)
    moved[[1, 3]] = math.tanh(1 / math.sqrt(6))
    torch.testing.assert_close(before - table.weight, moved)
    opt.param_groups[0]["gaf_placement"] = "update"
    with pytest.raises(
        gaf.GafError, match='Scaled takes sparse gradients with placement="gradient"'
    ):
        opt.step()


@pytest.mark.parametrize("placement", ["gradient", "update"])
def test_any_optimizer(placement):
    """RMSprop's own step, by hand, around or inside of f."""
    w, by_hand = torch.ones(2, 3), torch.ones(2, 3)
    opt = gaf.activate(torch.optim.RMSprop([w]), "scaled(0.1, 2)", placement=placement)
    theirs = torch.optim.RMSprop([by_hand])

    def f(x):
        return 0.1 * torch.tanh(2 * x / x.norm())

    for step in range(3):
        w.grad = torch.sin(torch.arange(6.0) + step).view(2, 3)
        by_hand.grad = f(w.grad) if placement == "gradient" else w.grad.clone()
        opt.step()
        before = by_hand.clone()
        theirs.step()
        if placement == "update":
            by_hand.copy_(before + f(by_hand - before))
    torch.testing.assert_close(w, by_hand)


def test_values_names_and_placement():
    f = gaf.Scaled(0.2, 3, by="max", function="arctan")
    assert gaf.parse("scaled(0.2, 3, by=max, function=arctan)") == gaf.parse(repr(f)) == f
    assert gaf.parse("scaled(by=0.9)").by == 0.9
    opt = gaf.create_optimizer("sgd + scaled(by=max)", [torch.zeros(2)], lr=0.1, momentum=0.9)
    assert opt.param_groups[0]["gaf_placement"] == "gradient"
    schedule = gaf.ParamScheduler(opt, beta=gaf.Ramp(2.0, 1.0, steps=2))
    assert gaf.activation_of(opt.param_groups[0]) == gaf.Scaled(1, 2, by="max")
    schedule.step()
    assert gaf.activation_of(opt.param_groups[0]) == gaf.Scaled(1, 1.5, by="max")
    with pytest.raises(gaf.GafError, match="by of scaled is a name"):
        gaf.ParamScheduler(opt, by=gaf.Ramp(2.0, 1.0, steps=2))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"alpha": 0}, "alpha must be positive"),
        ({"beta": math.inf}, "beta must be positive and finite"),
        ({"by": "nrm"}, "Scaled has no size 'nrm'; did you mean 'norm'"),
        ({"by": 1.0}, "a quantile must lie between 0 and 1, got 1.0"),
        ({"eps": -1}, "eps must be at least 0"),
        ({"decay": 1}, "decay must be at least 0 and below 1"),
        ({"keep": 2}, "keep must lie between 0 and 1"),
        ({"function": "clip"}, "a function of alpha and beta, and 'clip' is none; there are "),
        ({"function": "auto"}, "a function of alpha and beta, and 'auto' is none"),
    ],
)
def test_wrong_values(wrong, says):
    with pytest.raises(gaf.GafError, match=says):
        gaf.Scaled(**wrong)


def test_the_control_is_a_line_of_the_same_slope():
    f = gaf.Scaled(0.2, 3, by="max", keep=1)
    (line,) = f.controls
    assert line == gaf.Scaled(0.2, 3, by="max", keep=1, function="line")
    assert line.controls == ()
    x = torch.tensor([-1e-6, 0.0, 1e-6], dtype=torch.float64)
    values = torch.tensor([0.2, 3.0], dtype=torch.float64)
    torch.testing.assert_close(
        line.curve.formula(torch, x, *values), f.curve.formula(torch, x, *values)
    )
    assert float(line.curve.slope(*values)) == float(f.curve.slope(*values)) == pytest.approx(0.6)
    assert (float(f.curve.bound(*values)), float(line.curve.bound(*values))) == (0.2, math.inf)


def test_the_monitor_tells_of_it():
    model = make_model()
    opt = gaf.SGD(model.parameters(), lr=0.1, activation="scaled(1, 1e-6)")
    monitor = gaf.Monitor(opt)
    train(model, opt, 2)
    assert monitor.latest[0]["slope"] is None
    assert monitor.latest[0]["linear"] == 1  # the width of the line is a million norms
    assert "Scaled(" in str(monitor)
    assert "a learning rate for each tensor" in str(monitor.latest[0]["meaning"])


def test_what_it_cannot_do_is_said():
    w = torch.ones(2)
    w.grad = torch.ones(2)
    with pytest.raises(TypeError, match=r"gaf\.activate\(optimizer, gaf\.Scaled\(\)\)"):
        gaf.activate_grad_([w], "scaled")
    with pytest.raises(gaf.GafError, match="autograd does not follow"):
        gaf.SGD([w], lr=0.1, activation="scaled", differentiable=True)
    with pytest.raises(gaf.GafError, match="Scaled sets its values for each tensor"):
        gaf.parse("scaled + tanh")
