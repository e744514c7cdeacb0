"""Theorems 1 to 3: counts, counterexamples, and that a wrong claim would be caught."""

import math
from itertools import pairwise

import pytest
import torch

from gaf.functions import Arctan
from gaf.lab.theory import curvature
from gaf.lab.theory.conditioning import Box, constants
from gaf.lab.theory.curvature import ASSUMED, claim, on_staircase, random_settings
from gaf.lab.theory.curvature_examples import BENT, bent, by_hand, examples, turned
from gaf.lab.theory.families import one
from gaf.lab.theory.problems import PAPER
from gaf.lab.theory.staircase import steps
from gaf.lab.theory.trials import tally, without


@pytest.fixture(scope="module")
def settings():
    drawn = random_settings(torch.Generator().manual_seed(1))
    return [next(drawn)[0] for _ in range(9)]


@pytest.mark.parametrize("theorem", [1, 2, 3])
def test_no_violation_and_a_checked_example_for_each_assumption(settings, theorem):
    batches = [setting.trials(theorem) for setting in settings]
    total = tally(batches, curvature.PRINTED[theorem], cases=1_000)
    assert total.sound.failures == 0
    found = without(total, examples(theorem))  # refuses an example that is none
    assert [each.assumption for each in found] == list(ASSUMED[theorem])
    for each in found:
        if not each.example:
            assert each.reason.startswith("There is none")
            assert each.failures == 0


@pytest.mark.parametrize("theorem", [1, 2, 3])
def test_as_printed_there_are_violations(theorem):
    """Assumptions 4(b) and 5(b) are needed for the activated gradient too."""
    batches = (s.trials(theorem) for s, _ in random_settings(torch.Generator().manual_seed(0)))
    assert tally(batches, curvature.PRINTED[theorem], cases=10_000).printed.failures > 0


@pytest.mark.parametrize("theorem", [1, 2, 3])
def test_the_opposite_claim_is_always_violated(settings, theorem):
    """The constants of plain and activated gradients are told apart."""
    for setting in settings:
        plain, active = ((s.lipschitz, s.convexity) for s in (setting.plain, setting.active))
        inside = setting.trials(theorem).meeting()
        assert not (claim(theorem, active, plain) & inside).any()


def test_claims_by_hand():
    def each(*values):
        return tuple(torch.tensor([x], dtype=torch.float64) for x in values)

    better, worse, concave = each(30.0, 1.2), each(100.0, 1.0), each(30.0, -1.0)
    assert [claim(n, worse, better).item() for n in (1, 2, 3)] == [True, True, True]
    assert [claim(n, better, worse).item() for n in (1, 2, 3)] == [False, False, False]
    assert not claim(3, worse, concave).item()  # ζ is infinite
    assert not claim(3, better, better).item()  # strictly


def test_constants_of_a_staircase_are_in_the_description():
    setting = by_hand(((1.0, 0.04), (10.0, 0.12), (100.0, 0.2)))
    said = setting.describe(0)
    ell = 100 * 2 / (1 + 2.4**2)
    assert f"ℓ = 100 becomes {ell:.4g}" in said
    assert f"c = 1 becomes {2 / 1.64:.4g}" in said


def test_quadratics_are_never_inside(settings):
    """One curvature everywhere: it does not rise, with any function, ε₀ and ε₂."""
    for setting in settings:
        reach = 3 * setting.high.max().item()
        every = steps(((2.0, reach),))[torch.zeros(len(setting.low), dtype=torch.long)]
        flat = on_staircase(setting.f, every, setting.low, setting.high)
        assert not any(flat.trials(theorem).meeting().any() for theorem in (1, 2, 3))


def test_theorem_3_is_false_as_printed():
    """Every printed assumption holds; those on the band of the activated gradient, both, do not."""
    found = by_hand(((1.0, 0.04), (90.0, 0.05), (1.0, 0.12), (100.0, 0.2))).trials(3)
    missed = {name for name, met in found.assumptions.items() if not met.item()}
    assert missed == {curvature.L_BAND_G, curvature.C_BAND_G}
    assert missed.isdisjoint(curvature.PRINTED[3])
    assert not found.claim.item()
    ell, c = 90 * 2 / (1 + 0.8**2), 2 / (1 + 2.4**2)
    assert ell / c == pytest.approx(371, abs=1)


def test_the_paper_s_own_quadratic_gets_worse_by_zeta():
    box = Box.around(2, 1.0)
    assert constants(PAPER, box).condition == 5
    assert constants(PAPER, box, "arctan(0.1, 20)").condition > 1000


def test_a_turned_loss_has_the_constants_of_its_matrices():
    """Against singular values and eigenvalues by torch, at a coarse grid of the same points."""
    side = steps(((1.0, 0.0375), (1e3, 0.1225), (1e4, 0.2)))
    found = turned(2, Arctan(0.1, 20.0), side, 0.01, 0.04, 0.12)
    assert not found.claim.item()
    g = torch.linspace(-0.2, 0.2, 401, dtype=torch.float64)
    h = side.heights[0, 0][torch.searchsorted(side.knots[0, 0, 1:-1].contiguous(), g)]
    c, s = math.cos(0.01), math.sin(0.01)
    q = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    gradient = torch.cartesian_prod(g, g)[::7] @ q.T
    hessian = q @ torch.diag_embed(torch.cartesian_prod(h, h)[::7]) @ q.T
    jacobian = Arctan(0.1, 20.0).derivative(gradient)[..., None] * hessian
    ell = torch.linalg.matrix_norm(jacobian, ord=2).max().item()
    low = torch.linalg.eigvalsh((jacobian + jacobian.mT) / 2).min().item()
    said = found.describe(0)
    assert "ℓ = 1e+04 becomes 2917, c = 1 becomes -5.48" in said
    assert ell == pytest.approx(2917, rel=0.01)
    assert -5.49 < low < -4


def test_the_bent_loss_is_continuous_and_falls_once():
    assert all(first[1] == second[0] for first, second in pairwise(BENT))
    assert all((end - start) * slope > 0 for start, end, slope in BENT)
    assert "c = -2 becomes -4" in bent(2).describe(0)


def test_a_single_function_as_a_setting():
    f = one(Arctan(0.1, 20.0))
    ends = [torch.tensor([x], dtype=torch.float64) for x in (0.04, 0.12)]
    setting = on_staircase(f, steps(((1.0, 0.04), (10.0, 0.12), (100.0, 0.2))), *ends)
    assert all(setting.trials(n).meeting().item() for n in (1, 2, 3))
    broken = on_staircase(f, steps(((1.0, 0.2),)), *ends)
    assert not broken.assumptions(1)[curvature.L_RISES].item()
