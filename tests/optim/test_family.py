"""Members of the family against their originals, written from the publications without our rules in sight."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gaf
from tests.optim.helpers import backward, make_model
from tests.optim.originals import rules as originals
from tests.optim.originals.check import LIMITS, differences

# The original of each member with its published defaults, and what both are given.
BOTH = {"weight_decay": 0.01}
ORIGINALS = {
    "adam-atan2": (originals.AdamAtan2, {"lr": 1e-3, **BOTH}),
    "signsgd": (lambda **given: originals.Signum(momentum=0.0, **given), BOTH),
    "signum": (originals.Signum, BOTH),
    "lion": (originals.Lion, BOTH),
    "alphagrad": (originals.AlphaGrad, {"lr": 0.01, "momentum": 0.9, **BOTH}),
    "smoothed-sign": (originals.SmoothSign, BOTH),
    "arcgd": (lambda lr: originals.ArcGD(a=lr), {"lr": 0.01}),
    "biclip": (lambda lr: originals.BiClip(lr, 1e-4, 1.0), {"lr": 1e-3}),
    "value-clipping": (
        lambda **given: originals.ClipValue(1.0, **given),
        {**BOTH, "momentum": 0.9},
    ),
    "heavyball-mu-law": (
        lambda **given: originals.HeavyBallSGD(update_clipping=originals.mu_law, **given),
        BOTH,
    ),
    "heavyball-softsign": (
        lambda **given: originals.HeavyBallSGD(update_clipping=originals.softsign, **given),
        BOTH,
    ),
    "heavyball-trust-region": (
        lambda **given: originals.HeavyBallSGD(update_clipping=originals.trust_region, **given),
        BOTH,
    ),
    "sgd-atan": (originals.SGDAtan, {"lr": 0.1, "momentum": 0.9, **BOTH}),
    "sgd-atan-mom": (originals.SGDAtanMom, {"lr": 0.1, "momentum": 0.9, **BOTH}),
    "sgd-atan-mom-ada": (
        lambda **given: originals.SGDAtanMomAda(shrink=2, gamma=2, **given),
        {"lr": 0.1, "momentum": 0.9, **BOTH},
    ),
    "adam-atan": (originals.AdamAtan, BOTH),
}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


def trained(step_of, dtype, steps=100):
    """The weights of a small network after some steps of its own gradients."""
    model = make_model().to(dtype)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        batches = [
            (torch.randn(16, 5, dtype=dtype), torch.randn(16, 3, dtype=dtype)) for _ in range(steps)
        ]
    params = list(model.parameters())
    step = step_of(params)
    for x, y in batches:
        model.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        step()
    return [p.detach() for p in params]


def by_original(make, given):
    def step_of(params):
        rule = make(**given)
        return lambda: rule.step(params, [p.grad for p in params])

    return step_of


def by_member(name, given, **how):
    return lambda params: gaf.create_optimizer(name, params, **given, **how).step


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", ORIGINALS)
def test_a_member_is_its_original(name, dtype):
    make, given = ORIGINALS[name]
    theirs = trained(by_original(make, given), dtype)
    ways = [{}] if name == "lion" else [{"foreach": False}, {}]
    for how in ways:
        ours = trained(by_member(name, given, **how), dtype)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_softsignum_is_the_original_where_the_schedule_is_given():
    """Its soft part: the temperatures of the original, put into the group step by step."""
    rule = originals.SoftSignum(momentum=0.9, sign_iters=0, transition_iters=100, weight_decay=0.01)

    def ours(params):
        opt = gaf.create_optimizer("softsignum", params, weight_decay=0.01)
        count = iter(range(100))

        def step():
            opt.param_groups[0]["gaf_params"] = (1.0, rule.schedule[next(count)].item())
            opt.step()

        return step

    def theirs(params):
        return lambda: rule.step(params, [p.grad for p in params])

    dtype = torch.float64
    expected = trained(theirs, dtype)
    for a, b in zip(trained(ours, dtype), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", gaf.FAMILY)
def test_every_member_can_be_made(name):
    member = gaf.FAMILY[name]
    model = make_model()
    opt = gaf.create_optimizer(name, model.parameters(), lr=0.01)
    assert opt.param_groups[0]["lr"] == 0.01
    before = [p.detach().clone() for p in model.parameters()]
    backward(model, 0)
    opt.step()
    assert all((p != old).any() for p, old in zip(model.parameters(), before, strict=True))
    assert name in ORIGINALS or member.differs


def test_a_misspelt_member_is_named():
    with pytest.raises(
        gaf.GafError, match="unknown optimizer 'adam-atan22'; did you mean 'adam-atan2'"
    ):
        gaf.create_optimizer("adam-atan22", [torch.zeros(1)])


@pytest.mark.slow
def test_the_originals_are_the_published_packages(tmp_path):
    """In an environment of its own, with the packages as they are published."""
    script = Path(originals.__file__).with_name("packages.py")
    output = tmp_path / "weights.pt"
    subprocess.run([sys.executable, script, tmp_path / "environment", output], check=True)
    found = differences(torch.load(output, weights_only=True))
    packages = ("atan2", "sign", "lion", "heavyball")
    for package in packages:
        assert any(package in case.lower() for case in found), (package, list(found))
    for case, gaps in found.items():
        for kind, gap in gaps.items():
            assert gap <= LIMITS[kind], (case, kind, gap)


@pytest.mark.parametrize("how", [{"foreach": False}, {"foreach": True}, {}])
def test_eps_before_the_correction_needs_no_function(how):
    def step_of(params):
        return gaf.Adam(params, eps=1e-3, eps_hat=True, **how).step

    rule = originals.AdamAtan(eps=1e-3, beta=-1.0)  # a negative beta switches f off
    theirs = trained(
        lambda params: lambda: rule.step(params, [p.grad for p in params]), torch.float64
    )
    for a, b in zip(trained(step_of, torch.float64), theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
