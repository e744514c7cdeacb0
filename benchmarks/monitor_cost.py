"""What gaf.Monitor costs: steps with and without one, interleaved; ``python benchmarks/monitor_cost.py``.

Two trainings run in turns of ten steps (``every=10``: one of them is observed). The ratio of each pair of
turns is taken, and pairs are repeated until the 95 % interval of their median is within 0.5 %, or ten times
as often (``gaf.lab.bench.timing``). CPU time of the process, one thread: wall time on a shared machine is
that of the others too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable

import torch
from torch import nn

import gaf
from gaf.lab.bench import machine
from gaf.lab.bench.shapes import resnet50
from gaf.lab.bench.timing import Spread, collect, ratio

EVERY = 10
PRECISION = 0.005
Training = Callable[[Callable[..., torch.optim.Optimizer]], tuple[torch.optim.Optimizer, Callable]]


def large(
    make: Callable[..., torch.optim.Optimizer],
) -> tuple[torch.optim.Optimizer, Callable[[], None]]:
    params = [torch.randn(shape, requires_grad=True) for shape in resnet50().tensors]
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
RULES: dict[str, Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]] = {
    "torch SGD fused": lambda ps: torch.optim.SGD(ps, lr=1e-6, momentum=0.9, fused=True),
    "torch AdamW fused": lambda ps: torch.optim.AdamW(ps, lr=1e-6, fused=True),
    "gaf SGD + arctan": lambda ps: gaf.SGD(ps, lr=1e-6, momentum=0.9, activation=F),
    "gaf AdamW + arctan": lambda ps: gaf.AdamW(ps, lr=1e-6, activation=F),
}


def cost(training: Training, rule: str, per: str, pairs: int) -> Spread:
    """How many times as long ten steps take with a monitor."""
    (_, plain), (watched, step) = training(RULES[rule]), training(RULES[rule])
    gaf.Monitor(watched, every=EVERY, per=per)
    turns = {
        "without": lambda: [plain() for _ in range(EVERY)],
        "with": lambda: [step() for _ in range(EVERY)],
    }
    seconds: dict[str, list[float]] = {}
    collect(
        turns,
        seconds,
        repeats=pairs,
        judged=[("with", "without")],
        precision=PRECISION,
        shortest=0.0,
        clock=time.process_time,
    )
    return ratio(seconds["with"], seconds["without"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--per", choices=("group", "tensor"), default="group")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(machine.line(machine.facts()))
    for name, training in (("step of ResNet-50's size", large), ("small training", small)):
        for rule in RULES:
            pairs = asked.pairs if training is large else 4 * asked.pairs
            over = cost(training, rule, asked.per, pairs)
            print(f"{name:26}{rule:20}{over.estimate('.3f')} of {over.n} pairs", flush=True)


if __name__ == "__main__":
    main()
