"""The hard case: a deep sigmoid perceptron that plain SGD leaves at chance, and gaf.Auto() trains."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import gaf

EPOCHS, BATCH, LR = 60, 64, 0.1


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """1200 images to train and 597 to test, pixels / 16, by torch.randperm of seed 0."""
    datasets = pytest.importorskip("sklearn.datasets")
    pixels, labels = datasets.load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    x, y = torch.as_tensor(pixels / 16).float()[order], torch.as_tensor(labels).long()[order]
    return x[:1200], y[:1200], x[1200:], y[1200:]


def accuracy(seed: int, activation: gaf.Auto | None, epochs: int = EPOCHS) -> float:
    """Of six linear layers of width 64 with sigmoids, by SGD with momentum and a cosine at each step."""
    x, y, test_x, test_y = digits()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise([64] * 6 + [10]):
            layers += [nn.Linear(fan_in, fan_out), nn.Sigmoid()]
        model = nn.Sequential(*layers[:-1])
        opt = gaf.SGD(model.parameters(), lr=LR, momentum=0.9, activation=activation)
        steps, step = epochs * math.ceil(len(x) / BATCH), 0
        for _ in range(epochs):
            for index in torch.randperm(len(x)).split(BATCH):
                opt.param_groups[0]["lr"] = LR * (1 + math.cos(math.pi * step / steps)) / 2
                opt.zero_grad()
                nn.functional.cross_entropy(model(x[index]), y[index]).backward()
                opt.step()
                step += 1
    with torch.no_grad():
        return (model(test_x).argmax(1) == test_y).float().mean().item()


@pytest.mark.slow
def test_auto_trains_what_stays_at_chance():
    """Eight of ten seeds above 90 percent; observed: see docs/auto.md. The last need not run after eight."""
    accuracies: list[float] = []
    while len(accuracies) < 10 and sum(reached > 0.9 for reached in accuracies) < 8:
        accuracies.append(accuracy(len(accuracies), gaf.Auto()))
    assert sum(reached > 0.9 for reached in accuracies) >= 8, accuracies


@pytest.mark.slow
def test_without_it_plain_sgd_stays_at_chance():
    assert accuracy(0, None, epochs=20) < 0.2
