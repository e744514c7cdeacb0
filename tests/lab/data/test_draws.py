"""Draws are pure functions of their words, and look random: uniform, and unrelated between neighbours."""

import pytest
import torch

from gaf.lab.data.augment import BITS, below, draws, uniform

MANY = 200_000
# Quantiles of chi-square at 1 - 1e-6, by degrees of freedom: these draws are fixed, so a pass stays a pass.
CHI_SQUARE = {1: 23.9, 8: 42.7, 80: 152.0, 255: 375.0}


def chi_square(counts: torch.Tensor) -> float:
    expected = counts.sum() / counts.numel()
    return float(((counts - expected) ** 2 / expected).sum())


def splitmix(words: list[int]) -> int:
    """The same in Python's integers, from the published algorithm."""
    mask = (1 << 64) - 1

    def mixed(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
        return x ^ (x >> 31)

    state = 0
    for word in words:
        state = mixed((state + (word + 1) * 0x9E3779B97F4A7C15) & mask)
    return state >> 32


def test_the_tensors_compute_what_the_algorithm_says():
    index = torch.tensor([0, 1, 41, 49_999, 1_281_166])
    found = draws(7, 3, index, 5)
    for row, sample in enumerate(index.tolist()):
        assert found[row].tolist() == [splitmix([7, 3, sample, i]) for i in range(5)]


def test_the_published_first_number_of_splitmix64():
    assert splitmix([0]) == 0xE220A8397B1DCDAF >> 32


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**63, -5])
def test_any_seed(seed):
    found = draws(seed, 0, torch.arange(1000), 4)
    assert found.min() >= 0
    assert found.max() < 1 << BITS


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("bins", [2, 9, 256])
def test_each_draw_is_uniform(column, bins):
    for seed, epoch in ((0, 0), (0, 1), (1, 0), (12345, 199)):
        found = below(draws(seed, epoch, torch.arange(MANY), 3)[:, column], bins)
        assert chi_square(torch.bincount(found, minlength=bins)) < CHI_SQUARE[bins - 1]


def pairs(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    index = torch.arange(MANY)
    here = draws(0, 5, index, 2)
    return {
        "neighbouring samples": (here[:-1, 0], here[1:, 0]),
        "samples 128 apart": (here[:-128, 0], here[128:, 0]),
        "two draws of a sample": (here[:, 0], here[:, 1]),
        "neighbouring epochs": (here[:, 0], draws(0, 6, index, 2)[:, 0]),
        "neighbouring seeds": (here[:, 0], draws(1, 5, index, 2)[:, 0]),
        "seed and epoch swapped": (here[:, 0], draws(5, 0, index, 2)[:, 0]),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "neighbouring samples",
        "samples 128 apart",
        "two draws of a sample",
        "neighbouring epochs",
        "neighbouring seeds",
        "seed and epoch swapped",
    ],
)
def test_pairs_are_independent(kind):
    a, b = pairs(kind)
    joint = torch.bincount(below(a, 9) * 9 + below(b, 9), minlength=81)
    assert chi_square(joint) < CHI_SQUARE[80]
    correlation = torch.corrcoef(torch.stack((uniform(a), uniform(b))))[0, 1]
    assert abs(correlation) < 5 / MANY**0.5


def test_uniform_stays_below_one():
    assert uniform(torch.tensor([(1 << BITS) - 1])).item() < 1
    assert below(torch.tensor([(1 << BITS) - 1]), 9).item() == 8
