"""Theorem 4's bounds: the recursion step by step, the comparison, its counterexamples."""

import pytest
import torch

from gaf.lab.theory import bounds
from gaf.lab.theory.bounds import Bound, bound, compare, inside_theorem_3
from gaf.lab.theory.trials import tally, without


def each(*values):
    return [torch.tensor([x], dtype=torch.float64) for x in values]


def test_the_closed_form_is_the_recursion_of_the_paper():
    """gap ← (1 − ηcμ) gap + η²ℓM/2 with η = μ/(ℓM_G), from k = 1."""
    ell, c, start, mu, m, m_g = 50.0, 0.5, 3.0, 0.8, 0.4, 1.7
    limit = bound(*each(ell, c, start), mu, *each(m, m_g))
    gap, eta = start, mu / (ell * m_g)
    for k in range(1, 200):
        assert limit.at(torch.tensor(float(k))).item() == pytest.approx(gap, rel=1e-12)
        gap = (1 - eta * c * mu) * gap + eta**2 * ell * m / 2
    assert limit.floor.item() == pytest.approx(m / (2 * c * m_g))


def test_small_rates_do_not_cancel():
    slow = Bound(*each(1e-18, 0.0, 1.0))
    assert slow.fallen(torch.tensor(11.0)).item() == pytest.approx(1e-17, rel=1e-12)


def test_no_violation_and_examples():
    total = tally(
        bounds.random_comparisons(torch.Generator().manual_seed(1)), bounds.PRINTED, 3_000
    )
    assert total.sound.failures == 0
    assert total.printed.failures > 0  # starts below the noise floor
    assert all(x.example for x in without(total, bounds.comparison_examples()))


def test_a_worse_rate_is_not_called_better():
    args = (each(1.0, 0.0, 1.0), each(0.0, 1.0), each(1.0, 1.0), *each(10.0))
    found = compare(each(100.0, 1.0), each(200.0, 1.0), *args)
    assert not found.claim.item()
    assert not found.assumptions[bounds.BETTER].item()
    assert compare(each(100.0, 1.0), each(50.0, 1.1), *args).claim.item()


def test_cases_inside_theorem_3_are_inside():
    setting, loss, keep = next(inside_theorem_3(torch.Generator().manual_seed(0)))
    assert setting.trials(3).meeting()[keep].all()
    assert len(loss.knots) == len(setting.low) > len(keep) > 0
