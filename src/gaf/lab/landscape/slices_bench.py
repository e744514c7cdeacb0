"""Slices against the two loops one would write by hand, interleaved in one run."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from gaf.lab.landscape.slices import POINTS, SIDE
from gaf.lab.landscape.slices_directions import Direction, random_direction
from gaf.lab.landscape.slices_evaluate import Loss, losses_at

SAMPLES = {"digits MLP": 256, "digits MLP, 16 samples": 16, "digits CNN": 64}
ROUNDS = 9


@dataclass(frozen=True)
class Timed:
    """One case: seconds of a slice, how many times as fast as the loops, and how far from them.

    Each round times all three, one right after the other. The ratios are of the fastest rounds: whatever else
    a machine does can only add to a time, and with medians the same loop came out at 0.9 to 1.1 of itself.
    """

    case: str
    seconds: float
    to_plain: float  # the loop that writes into the model
    to_deep: float  # the loop that copies the model for each point
    method: str
    difference: float  # the largest, relative to the deep-copy loop's loss at that point


def measure(rounds: int = ROUNDS, told: Callable[[str], None] = lambda text: None) -> list[Timed]:
    """Curves and surfaces of the digits MLP and of a small CNN, on the first digits, by one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measured(rounds, told)
    finally:
        torch.set_num_threads(threads)


def _measured(rounds: int, told: Callable[[str], None]) -> list[Timed]:
    images, labels = _digits()
    found = []
    for name, samples in SAMPLES.items():
        model = _cnn() if "CNN" in name else _mlp()
        x, y = images[:samples], labels[:samples]

        def loss(m: nn.Module, x: Tensor = x, y: Tensor = y) -> Tensor:
            return nn.functional.cross_entropy(m(x), y)

        directions = [random_direction(model, seed) for seed in (0, 1)]
        axis = torch.linspace(-1, 1, POINTS, dtype=torch.float64)
        plane = torch.linspace(-1, 1, SIDE, dtype=torch.float64)
        cases = {
            f"{name}, curve of {POINTS}": (directions[:1], axis[:, None]),
            f"{name}, surface of {SIDE}²": (directions, torch.cartesian_prod(plane, plane)),
        }
        for case, (some, points) in cases.items():
            told(case)
            found.append(_measure(case, model, loss, some, points, rounds))
    return found


def _measure(
    case: str,
    model: nn.Module,
    loss: Loss,
    directions: Sequence[Direction],
    points: Tensor,
    rounds: int,
) -> Timed:
    method = ""

    def ours() -> Tensor:
        nonlocal method
        losses, method = losses_at(model, loss, directions, points)
        return losses

    ways: dict[str, Callable[[], Tensor]] = {
        "slice": ours,
        "plain": lambda: plain_loop(model, loss, directions, points),
        "deep": lambda: deep_copy_loop(model, loss, directions, points),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    values = {name: way() for name, way in ways.items()}  # warm
    for number in range(rounds):
        order = list(ways)
        for name in order[number % 3 :] + order[: number % 3]:
            began = time.perf_counter()
            ways[name]()
            seconds[name].append(time.perf_counter() - began)

    fastest = {name: min(each) for name, each in seconds.items()}
    reference = values["deep"]
    difference = ((values["slice"] - reference).abs() / reference.abs()).max().item()
    mine = fastest["slice"]
    return Timed(case, mine, fastest["plain"] / mine, fastest["deep"] / mine, method, difference)


def plain_loop(
    model: nn.Module, loss: Loss, directions: Sequence[Direction], points: Tensor
) -> Tensor:
    """Write each point into the model itself, and the weights back at the end."""
    parameters = dict(model.named_parameters())
    before = {name: p.detach().clone() for name, p in parameters.items()}
    found = []
    with torch.no_grad():
        for point in points.tolist():
            for name, p in parameters.items():
                moved = [c * d[name] for c, d in zip(point, directions, strict=True) if name in d]
                if moved:
                    p.copy_(before[name] + sum(moved))
            found.append(loss(model).item())
        for name, p in parameters.items():
            p.copy_(before[name])
    return torch.tensor(found, dtype=torch.float64)


def deep_copy_loop(
    model: nn.Module, loss: Loss, directions: Sequence[Direction], points: Tensor
) -> Tensor:
    """Copy the model for each point."""
    found = []
    with torch.no_grad():
        for point in points.tolist():
            copied = copy.deepcopy(model)
            parameters = dict(copied.named_parameters())
            for c, direction in zip(point, directions, strict=True):
                for name, d in direction.items():
                    parameters[name].add_(d, alpha=c)
            found.append(loss(copied).item())
    return torch.tensor(found, dtype=torch.float64)


def _digits() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return torch.as_tensor(pixels / 16).float().view(-1, 1, 8, 8), torch.as_tensor(labels)


def _mlp() -> nn.Module:
    """Six linear layers, width 64, sigmoid."""
    torch.manual_seed(0)
    sizes = (*[64] * 6, 10)
    layers = [(nn.Linear(i, o), nn.Sigmoid()) for i, o in pairwise(sizes)]
    return nn.Sequential(nn.Flatten(), *[part for pair in layers for part in pair][:-1]).eval()


def _cnn() -> nn.Module:
    torch.manual_seed(0)
    sizes = (1, 8, 16, 16)
    layers = [
        part
        for i, o in pairwise(sizes)
        for part in (nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
    ]
    pooled = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[-1], 10))
    return nn.Sequential(*layers, *pooled).eval()
