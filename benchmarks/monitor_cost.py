"""What gaf.Monitor costs: steps with and without one, interleaved; ``python benchmarks/monitor_cost.py``.

Two trainings run in turns, ten steps each (``every=10``: one of them is observed), with the order changed
from turn to turn. The ratio of each pair of turns is taken; shown are the median and the quartiles of the
pairs. CPU time of the process, one thread: wall time on a shared machine is that of the others too.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import gaf

EVERY = 10

# ResNet-50 by its convolutions, the vectors of its norm layers, and the last layer: 25.6 million parameters.
BLOCKS = ((64, 64, 256, 3), (256, 128, 512, 4), (512, 256, 1024, 6), (1024, 512, 2048, 3))


def resnet50_shapes() -> list[tuple[int, ...]]:
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    for inputs, width, outputs, count in BLOCKS:
        for block in range(count):
            wide = inputs if block == 0 else outputs
            layers = [(width, wide, 1, 1), (width, width, 3, 3), (outputs, width, 1, 1)]
            layers += [(outputs, wide, 1, 1)] if block == 0 else []
            for layer in layers:
                shapes += [layer, layer[:1], layer[:1]]
    return [*shapes, (1000, 2048), (1000,)]


def large(
    make: Callable[..., torch.optim.Optimizer],
) -> tuple[torch.optim.Optimizer, Callable[[], None]]:
    params = [torch.randn(shape, requires_grad=True) for shape in resnet50_shapes()]
    for p in params:
        p.grad = 1e-3 * torch.randn_like(p)
    optimizer = make(params)
    return optimizer, optimizer.step


def small(
    make: Callable[..., torch.optim.Optimizer],
) -> tuple[torch.optim.Optimizer, Callable[[], None]]:
    """A CNN on images of 16 by 16, batches of 64: forward, backward and step."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(512, 10)),
    )
    x, y = torch.randn(64, 1, 16, 16), torch.randint(0, 10, (64,))
    optimizer = make(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return optimizer, step


F = gaf.Arctan(0.1, 20)
RULES: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "torch SGD fused": lambda ps: torch.optim.SGD(ps, lr=1e-6, momentum=0.9, fused=True),
    "torch AdamW fused": lambda ps: torch.optim.AdamW(ps, lr=1e-6, fused=True),
    "gaf SGD + arctan": lambda ps: gaf.SGD(ps, lr=1e-6, momentum=0.9, activation=F),
    "gaf AdamW + arctan": lambda ps: gaf.AdamW(ps, lr=1e-6, activation=F),
}


def ratios(task: Callable[..., object], rule: str, per: str, pairs: int) -> list[float]:
    (_, plain), (watched, step) = task(RULES[rule]), task(RULES[rule])  # type: ignore[misc]
    gaf.Monitor(watched, every=EVERY, per=per)
    found = []
    for pair in range(-1, pairs):
        seconds = {}
        for which in (plain, step) if pair % 2 else (step, plain):
            begin = time.process_time()
            for _ in range(EVERY):
                which()
            seconds[which] = time.process_time() - begin
        if pair >= 0:  # the first pair makes states
            found.append(seconds[step] / seconds[plain])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--per", choices=("group", "tensor"), default="group")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(
        f"{platform.processor() or platform.machine()}, torch {torch.__version__}, {asked.pairs} pairs"
    )
    for name, task in (("step of ResNet-50's size", large), ("small training", small)):
        for rule in RULES:
            pairs = asked.pairs if task is large else 4 * asked.pairs
            found = [100 * (ratio - 1) for ratio in ratios(task, rule, asked.per, pairs)]
            low, middle, high = statistics.quantiles(found, n=4)
            print(
                f"{name:26}{rule:20}{middle:+6.2f} %  (quartiles {low:+.2f}, {high:+.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
