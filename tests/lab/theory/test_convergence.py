"""Theorem 4, the descent: steps against their bound, in exact expectation and by sampling."""

import pytest
import torch

from gaf.functions import Arctan
from gaf.lab.theory import convergence
from gaf.lab.theory.convergence import INSIDE, one_step, really_faster, sgd
from gaf.lab.theory.families import one
from gaf.lab.theory.noise import GradientNoise
from gaf.lab.theory.staircase import steps
from gaf.lab.theory.trials import tally, without

F = Arctan(0.1, 20.0)


def test_no_step_is_above_its_bound():
    batches = convergence.random_steps(torch.Generator().manual_seed(1))
    total = tally(batches, convergence.PRINTED, cases=4_000)
    assert total.sound.failures == 0
    assert total.printed.failures > 0  # where f acts on noisy gradients
    assert all(x.example for x in without(total, convergence.step_examples()))


def step(*numbers):
    """One step from w with ℓ, c, additive and relative noise, and η as a multiple of 1/(ℓM_G)."""
    w, ell, c, *noise, factor = (torch.tensor([v], dtype=torch.float64) for v in numbers)
    never = torch.tensor([False])
    return one_step(one(F), steps(INSIDE), w[:, None], (ell, c), tuple(noise), factor, never)


def test_the_expectation_of_a_step_by_hand():
    """On one step of the staircase, so that gradients are g = w and the loss is ∫ f."""
    x = [torch.tensor([v], dtype=torch.float64) for v in (0.02, 29.59, 1.22, 0.005, 0.5, 1.0)]
    found = one_step(
        one(F),
        steps(INSIDE),
        x[0][:, None],
        (x[1], x[2]),
        (x[3], x[4]),
        x[5],
        torch.tensor([False]),
    )
    eta = 1 / (29.59 * 1.25)
    field = F(0.02)
    ends = [0.02 - eta * (field * (1 + a * 0.5) + b * 0.005) for a in (-1, 1) for b in (-1, 1)]
    mean = sum(F.integral(end) for end in ends) / 4
    gap = F.integral(0.02)
    bound = (1 - eta * 1.22) * gap + eta**2 * 29.59 * 0.005**2 / 2
    said = found.describe(0)
    assert f"the gap is {gap:.4g}, the mean of the next {mean:.4g}, the bound {bound:.4g}" in said
    assert found.meeting().item()
    assert found.claim.item()


def test_too_tight_a_bound_would_be_violated():
    """With a c that is far too large the same check fails: it can see a wrong constant."""
    x = [torch.tensor([v], dtype=torch.float64) for v in (0.02, 29.59, 80.0, 0.0, 0.0, 1.0)]
    found = one_step(
        one(F),
        steps(INSIDE),
        x[0][:, None],
        (x[1], x[2]),
        (x[3], x[4]),
        x[5],
        torch.tensor([False]),
    )
    assert not found.claim.item()


def test_the_printed_claim_itself_is_false_now_and_then():
    count = really_faster(torch.Generator().manual_seed(0), 3_000)
    assert count.cases >= 3_000
    assert 0 < count.failures < count.cases / 20
    assert "at k = " in count.example


@pytest.mark.parametrize("f", [None, F], ids=["plain", "arctan"])
@pytest.mark.parametrize(
    "noise", [GradientNoise(), GradientNoise(0.01, 1.0), GradientNoise(0.05)], ids=str
)
def test_sgd_keeps_to_its_bound(f, noise):
    run = sgd(noise, f, runs=500, at=(1, 2, 10, 100))
    assert run.gap[0] == pytest.approx(run.bound[0])
    for gap, error, bound in zip(run.gap, run.error, run.bound, strict=True):
        assert gap <= bound + 4 * error
    assert run.gap[-1] < run.gap[0]
    assert run.bound[-1] < run.bound[0]
