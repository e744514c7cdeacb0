"""Is a step slower than before? ``python benchmarks/between.py BEFORE/src AFTER/src``, with built kernels.

Two processes hold the same tensors, each with the package of one tree, and take turns: in each repetition
either times torch's fused step and every rule of ours once. A ratio is that of a rule to torch's step in the
same repetition of the same process. Shown are the medians with their 95 % intervals, before and after, and
the median of the paired quotient. Rules that only one tree knows are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

SHAPES = {"resnet50": "ResNet-50's tensors", "one": "161 tensors of one element"}
FUNCTIONS = ("arctan", "tanh", "log")
PLACEMENTS = {"SGD": ("gradient", "momentum", "update"), "Adam": ("gradient",)}
TORCH = "torch"
SHORTEST = 0.02  # seconds: a quicker step is done several times for one measurement


def steps(shapes: str) -> dict[str, dict[str, Callable[[], Any]]]:
    """Of each optimizer the fused steps of torch and of the package that was imported, on shared tensors."""
    import torch

    import gaf
    from gaf.lab.bench.shapes import SHAPES as LISTS

    torch.manual_seed(0)
    tensors = LISTS["resnet50"].tensors if shapes == "resnet50" else [(1,)] * 161
    params = [1e-2 * torch.randn(shape) for shape in tensors]
    for p in params:
        p.grad = 1e-3 * torch.randn_like(p)
    made = {}
    for name, hyper in (("SGD", {"momentum": 0.9, "weight_decay": 5e-4}), ("Adam", {})):
        hyper = {"lr": 1e-6, "fused": True, **hyper}
        own = {TORCH: getattr(torch.optim, name)(params, **hyper).step}
        for f, placement in itertools.product(FUNCTIONS, PLACEMENTS[name]):
            rule = getattr(gaf, name)(
                params, activation=f"{f}(0.1, 20)", placement=placement, **hyper
            )
            own[f"{f} {placement}"] = rule.step
        made[name] = own
    return made


def worker(shapes: str) -> None:
    """Answer each line on stdin with the seconds of every step, in a random order."""
    own, order = steps(shapes), random.Random(0)
    names = [(optimizer, rule) for optimizer in own for rule in own[optimizer]]
    counts = {}
    for name in names:
        seconds_of(own, name, 1)  # makes the state
        counts[name] = max(1, math.ceil(SHORTEST / seconds_of(own, name, 1)))
    for _ in sys.stdin:
        order.shuffle(names)
        seconds: dict[str, dict[str, float]] = {optimizer: {} for optimizer in own}
        for optimizer, rule in names:
            count = counts[optimizer, rule]
            seconds[optimizer][rule] = seconds_of(own, (optimizer, rule), count)
        print(json.dumps(seconds), flush=True)


def seconds_of(
    own: dict[str, dict[str, Callable[[], Any]]], name: tuple[str, str], count: int
) -> float:
    step = own[name[0]][name[1]]
    began = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - began) / count


def median(values: Sequence[float]) -> str:
    """The median, and the order statistics between which it lies with a probability of 95 %."""
    ordered, n = sorted(values), len(values)
    low = max(0, math.floor(n / 2 - 0.98 * math.sqrt(n)))
    return f"{statistics.median(ordered):.3f} ({ordered[low]:.3f} to {ordered[n - 1 - low]:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs=2, help="folders with the package, before and after")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--shapes", choices=SHAPES, default="resnet50")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        worker(asked.shapes)
        return
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, tree, tree, "--worker", "--shapes", asked.shapes],
            env={**os.environ, "PYTHONPATH": os.path.abspath(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for tree in asked.trees
    ]
    ratios: list[dict[tuple[str, str], list[float]]] = [{} for _ in processes]
    for repetition in range(asked.repeats):
        turns = list(zip(processes, ratios, strict=True))
        for process, found in turns if repetition % 2 else turns[::-1]:
            assert process.stdin
            assert process.stdout
            print(file=process.stdin, flush=True)
            for optimizer, seconds in json.loads(process.stdout.readline()).items():
                for rule in seconds.keys() - {TORCH}:
                    found.setdefault((optimizer, rule), []).append(seconds[rule] / seconds[TORCH])
        print(f"{repetition + 1} of {asked.repeats}", end="\r", file=sys.stderr)
    for process in processes:
        process.communicate()
    print(
        f"{SHAPES[asked.shapes]}, multiples of torch's fused step over {asked.repeats} repetitions"
    )
    before, after = ratios
    for rule in sorted(before.keys() & after.keys()):
        quotients = [b / a for a, b in zip(before[rule], after[rule], strict=True)]
        print(
            f"{' '.join(rule):22} before {median(before[rule])}, after {median(after[rule])}, "
            f"after / before {median(quotients)}"
        )


if __name__ == "__main__":
    main()
