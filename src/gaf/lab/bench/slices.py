"""Slices against the two loops one would write by hand, interleaved in one run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from rich.console import Console
from torch import Tensor, nn

from gaf.lab.bench.timing import timed
from gaf.lab.landscape.slices import POINTS, SIDE, random_direction
from gaf.lab.landscape.slices_evaluate import Direction, Loss, losses_at
from gaf.lab.theory.learning import deep_sigmoid, digits

ROUNDS = 9


@dataclass(frozen=True)
class SliceTimes:
    """One case: seconds of a slice, how many times as fast as the loops, and how far from them.

    Each round times all three, in a random order. The ratios are of the fastest rounds: whatever else
    a machine does can only add to a time, and with medians the same loop came out at 0.9 to 1.1 of itself.
    """

    case: str
    seconds: float
    to_plain: float  # the loop that writes into the model
    to_deep: float  # the loop that copies the model for each point
    method: str
    difference: float  # the largest, relative to the deep-copy loop's loss at that point


def measure(console: Console, rounds: int = ROUNDS) -> list[SliceTimes]:
    """Curves and surfaces of the digits MLP and of a small CNN, on the first digits, by one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_measure(console, *case, rounds=rounds) for case in _cases()]
    finally:
        torch.set_num_threads(threads)


def _cases() -> Iterator[tuple[str, nn.Module, Loss, Sequence[Direction], Tensor]]:
    pixels, labels = digits()
    images = pixels.float().view(-1, 1, 8, 8)
    axis = torch.linspace(-1, 1, POINTS, dtype=torch.float64)
    plane = torch.linspace(-1, 1, SIDE, dtype=torch.float64)
    for name, (build, samples) in MODELS.items():
        model = build()
        x, y = images[:samples], labels[:samples]

        def loss(m: nn.Module, x: Tensor = x, y: Tensor = y) -> Tensor:
            return nn.functional.cross_entropy(m(x), y)

        directions = [random_direction(model, seed) for seed in (0, 1)]
        yield f"{name}, curve of {POINTS}", model, loss, directions[:1], axis[:, None]
        points = torch.cartesian_prod(plane, plane)
        yield f"{name}, surface of {SIDE}²", model, loss, directions, points


def _measure(
    console: Console,
    case: str,
    model: nn.Module,
    loss: Loss,
    directions: Sequence[Direction],
    points: Tensor,
    rounds: int,
) -> SliceTimes:
    ways = {"plain": plain_loop, "deep": deep_copy_loop, "slice": losses_at}
    steps = {name: partial(way, model, loss, directions, points) for name, way in ways.items()}
    (losses, method), reference = steps["slice"](), steps["deep"]()
    seconds = timed(console, case, steps, repeats=rounds, shortest=0.0)
    plain, deep, mine = (min(seconds[name]) for name in ways)
    difference = ((losses - reference).abs() / reference.abs()).max().item()
    return SliceTimes(case, mine, plain / mine, deep / mine, method, difference)


def plain_loop(
    model: nn.Module, loss: Loss, directions: Sequence[Direction], points: Tensor
) -> Tensor:
    """Write each point into the model itself, and the weights back at the end."""
    parameters = dict(model.named_parameters())
    before = {name: p.detach().clone() for name, p in parameters.items()}
    losses = []
    with torch.no_grad():
        for point in points.tolist():
            for name, p in parameters.items():
                moved = [c * d[name] for c, d in zip(point, directions, strict=True) if name in d]
                if moved:
                    p.copy_(before[name] + sum(moved))
            losses.append(loss(model).item())
        for name, p in parameters.items():
            p.copy_(before[name])
    return torch.tensor(losses, dtype=torch.float64)


def deep_copy_loop(
    model: nn.Module, loss: Loss, directions: Sequence[Direction], points: Tensor
) -> Tensor:
    """Copy the model for each point."""
    losses = []
    with torch.no_grad():
        for point in points.tolist():
            copied = copy.deepcopy(model)
            parameters = dict(copied.named_parameters())
            for c, direction in zip(point, directions, strict=True):
                for name, d in direction.items():
                    parameters[name].add_(d, alpha=c)
            losses.append(loss(copied).item())
    return torch.tensor(losses, dtype=torch.float64)


def digits_mlp() -> nn.Module:
    """Six linear layers, width 64, sigmoid."""
    return nn.Sequential(nn.Flatten(), deep_sigmoid(depth=6, width=64)).float().eval()


def small_cnn() -> nn.Module:
    """Three convolutions with batch norm."""
    torch.manual_seed(0)
    sizes = (1, 8, 16, 16)
    layers = [
        part
        for i, o in pairwise(sizes)
        for part in (nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
    ]
    pooled = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[-1], 10))
    return nn.Sequential(*layers, *pooled).eval()


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {  # and how many samples
    "digits MLP": (digits_mlp, 256),
    "digits MLP, 16 samples": (digits_mlp, 16),
    "digits CNN": (small_cnn, 64),
}
