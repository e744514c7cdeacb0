"""Noise with known constants: mean and variance, sampled and by enumeration."""

import pytest
import torch

from gaf.lab.theory.noise import GradientNoise, outcomes


def test_constants_of_assumption_6():
    noise, g = GradientNoise(0.5, 0.8), torch.tensor([3.0, -4.0], dtype=torch.float64)
    drawn = noise.sample(g.expand(200_000, 2), torch.Generator().manual_seed(0))
    variance = drawn.var(0).sum().item()
    torch.testing.assert_close(drawn.mean(0), g, rtol=0, atol=0.03)
    assert variance == pytest.approx(noise.m(2) + 0.64 * 25, rel=0.01)
    assert noise.m(2) == 2 * 0.25
    assert noise.m_g == pytest.approx(1.64)


def test_outcomes_are_all_of_them():
    g = torch.tensor([[3.0, -4.0]], dtype=torch.float64)
    sizes = [torch.tensor([x], dtype=torch.float64) for x in (0.5, 0.8)]
    every = outcomes(g, *sizes)
    assert every.shape == (1, 8, 2)
    torch.testing.assert_close(every.mean(1), g)
    assert every.var(1, correction=0).sum().item() == pytest.approx(0.5 + 0.64 * 25)
    drawn = GradientNoise(0.5, 0.8).sample(g.expand(1000, 2), torch.Generator().manual_seed(0))
    assert {tuple(x) for x in drawn.tolist()} == {tuple(x) for x in every[0].tolist()}


@pytest.mark.parametrize("sizes", [(-0.1, 0.0), (0.0, float("nan"))])
def test_bad_input_is_one_sentence(sizes):
    with pytest.raises(ValueError, match="the size of noise must be 0 or more"):
        GradientNoise(*sizes)
