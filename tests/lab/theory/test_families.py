"""Many functions at once are the functions one by one."""

import pytest
import torch

from gaf.lab.theory.families import FAMILIES, PRESETS, draw, log_uniform, one


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_batch_is_its_functions(family):
    batch = draw(family, 20, torch.Generator().manual_seed(0), slopes=(0.5, 100.0))
    g = torch.linspace(-1, 1, 20 * 3, dtype=torch.float64).reshape(20, 3)
    for case in range(20):
        f = family(batch.alpha[case].item(), batch.beta[case].item())
        torch.testing.assert_close(batch(g)[case], f(g[case]))
        torch.testing.assert_close(batch.derivative(g)[case], f.derivative(g[case]))
        torch.testing.assert_close(batch.integral(g)[case], f.integral(g[case]))
        assert batch.crossover[case].item() == pytest.approx(f.crossover, rel=1e-9)
        if f.slope > 1:
            edge = batch.unit_slope[case].item()
            assert f.derivative(edge * 0.999) > 1 > f.derivative(edge * 1.001)
        else:
            assert batch.unit_slope[case] == 0
    some = batch[torch.tensor([3])]
    assert some.named(0) == batch.named(3)


def test_presets_come_first_where_they_fit():
    f = draw(FAMILIES[0], 5, torch.Generator().manual_seed(0), slopes=(1.0, 3.0))
    assert [(f.alpha[i].item(), f.beta[i].item()) for i in (0, 1)] == list(PRESETS)
    f = draw(FAMILIES[0], 5, torch.Generator().manual_seed(0), slopes=(3.0, 4.0))
    assert (f.slope >= 3 - 1e-9).all()
    assert (f.slope <= 4 + 1e-9).all()


def test_log_uniform_is_even_in_the_logarithm():
    drawn = log_uniform((1e-2, 1e2), (20_000,), torch.Generator().manual_seed(0))
    assert (drawn >= 1e-2).all()
    assert (drawn <= 1e2).all()
    assert (drawn < 1).double().mean().item() == pytest.approx(0.5, abs=0.02)


def test_a_single_function():
    f = one(FAMILIES[0](0.1, 20.0))
    assert f.named(0) == "arctan(0.1, 20)"
    assert f.slope.item() == 2.0
