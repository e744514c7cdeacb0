"""Time one optimizer step against torch's own, on the tensor shapes of a ResNet-50.

A repetition times every rule once, in a random order, so that a slow spell of the machine falls on all
of them. The columns "x single", "x foreach" and "x fused" divide by torch.optim.SGD within a repetition
and take the median. Only the step is timed, with the clipping before it where one is named. There are no
fused kernels for activations yet: "fused" is torch alone. The quartiles show how quiet the machine was.

Example: python benchmarks/step.py --sizes 5 --repeats 15 --json step.json
"""

import argparse
import datetime
import itertools
import json
import os
import platform
import random
import re
import statistics
import sys
import time
from argparse import RawTextHelpFormatter as KeepLines
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import gaf

BASELINES = ("single", "foreach", "fused")
WIDTHS = {5: 27, 25: 64}  # channels of the first layer for so many million parameters
SGD = {"lr": 1e-3, "momentum": 0.9, "weight_decay": 5e-4}


def resnet50(width: int) -> list[tuple[int, ...]]:
    """Its parameter shapes with `width` channels in the first layer; the original has 64."""

    def conv(fan_in: int, out: int, size: int) -> list[tuple[int, ...]]:
        return [(out, fan_in, size, size), (out,), (out,)]  # with the two of its batch norm

    shapes, channels = conv(3, width, 7), width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, out = width * 2**stage, 4 * width * 2**stage
        for block in range(blocks):
            shapes += conv(channels, inner, 1) + conv(inner, inner, 3) + conv(inner, out, 1)
            shapes += conv(channels, out, 1) if block == 0 else []
            channels = out
    return [*shapes, (1000, channels), (1000,)]


def rules(params: list[torch.Tensor]) -> dict[str, Callable[[], None]]:
    """Each rule as a function that does one step; all share parameters, gradients and velocities."""
    found, velocities = {}, [torch.zeros_like(p) for p in params]

    def add(name: str, opt: torch.optim.Optimizer, before: Callable = lambda: None) -> None:
        for p, v in zip(params, velocities, strict=True):
            opt.state[p] = {"momentum_buffer": v, "gaf_velocity": v}
        found[name] = lambda: (before(), opt.step())

    for kind in BASELINES:
        flags = {"foreach": False} if kind == "single" else {kind: True}
        add(f"torch {kind}", torch.optim.SGD(params, **SGD, **flags))
    plain = torch.optim.SGD(params, **SGD, foreach=True)
    add("clip_grad_norm_, torch foreach", plain, lambda: clip_grad_norm_(params, 1, foreach=True))
    add("clip_grad_value_, torch foreach", plain, lambda: clip_grad_value_(params, 1, foreach=True))
    for f, placement, foreach in itertools.product(gaf.names(), gaf.PLACEMENTS, (False, True)):
        opt = gaf.SGD(params, **SGD, foreach=foreach, activation=f, placement=placement)
        add(f"gaf {f} {placement} {BASELINES[foreach]}", opt)
    return found


def measure(steps: dict[str, Callable], repeats: int, label: str) -> dict[str, list[float]]:
    """Seconds of each rule in each repetition; one more repetition comes first as a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    shuffle, terminal = random.Random(0), sys.stderr.isatty()
    for repetition in range(repeats + 1):
        if terminal:
            print(f"\r{label}: repetition {repetition} of {repeats}", end="", file=sys.stderr)
        for name in shuffle.sample(sorted(steps), len(steps)):
            began = time.perf_counter()
            steps[name]()
            seconds[name].append(time.perf_counter() - began)
    print("\r\033[K" * terminal, end="", file=sys.stderr)
    return {name: times[1:] for name, times in seconds.items()}


def summarise(seconds: dict[str, list[float]]) -> list[dict]:
    rows = []
    for name, times in seconds.items():
        low, median, high = (1e3 * quartile for quartile in statistics.quantiles(times, n=4))
        ratios = {}
        for kind in BASELINES:
            pairs = zip(times, seconds[f"torch {kind}"], strict=True)
            ratios[kind] = statistics.median(mine / base for mine, base in pairs)
        rows.append({"rule": name, "ms": median, "quartiles_ms": [low, high], "ratios": ratios})
    return rows


def show(label: str, rows: list[dict]) -> None:
    line = "{:<34}{:>9}{:>18}{:>10}{:>11}{:>9}".format
    print("\n" + line(label, "median ms", "quartiles", *(f"x {kind}" for kind in BASELINES)))
    for row in rows:
        spread = "{:.1f} to {:.1f}".format(*row["quartiles_ms"])
        ratios = (f"{ratio:.2f}" for ratio in row["ratios"].values())
        print(line(row["rule"], f"{row['ms']:.1f}", spread, *ratios))


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    named = re.search("model name.*: (.*)", info.read_text()) if info.exists() else None
    return named[1] if named else platform.processor() or platform.machine()


def main() -> None:
    about, _, example = (__doc__ or "").partition("Example: ")
    parser = argparse.ArgumentParser(
        description=about, epilog=f"example: {example}", formatter_class=KeepLines
    )
    sizes = {"choices": WIDTHS, "default": [*WIDTHS], "help": "million parameters, default: both"}
    parser.add_argument("--sizes", type=int, nargs="+", **sizes)
    parser.add_argument("--repeats", type=int, default=11, metavar="N", help="default: 11")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), metavar="N")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
    args = parser.parse_args()
    if args.repeats < 2 or args.threads < 1:
        parser.error("at least 2 repeats and 1 thread are needed")
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    facts = {"date": now, "cpu": cpu_model(), "cores": os.cpu_count(), "threads": args.threads}
    facts |= {"torch": torch.__version__, "gaf": gaf.__version__, "repeats": args.repeats}
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    results = []
    for size in args.sizes:
        params = [1e-2 * torch.randn(shape) for shape in resnet50(WIDTHS[size])]
        for p in params:
            p.grad = 1e-3 * torch.randn_like(p)
        label = f"{sum(p.numel() for p in params) / 1e6:.1f} M parameters, {len(params)} tensors"
        rows = summarise(measure(rules(params), args.repeats, label))
        show(label, rows)
        results.append({"size": label, "rows": rows})
    if args.json:
        args.json.write_text(json.dumps({**facts, "results": results}, indent=2) + "\n")
        print(f"\nwritten: {args.json}")


if __name__ == "__main__":
    main()
