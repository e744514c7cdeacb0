"""A step of Adam-atan2 beside torch's fused Adam and the published package, interleaved in one run.

``python benchmarks/family_speed.py``; with ``--environment FOLDER`` an environment is made there (or used
again) that has the package adam-atan2-pytorch, and the comparison with it is added. The ratios are taken
repetition by repetition, and shown by their median and the range from the 10th to the 90th percentile.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

import gaf
from gaf.lab.bench.timing import collect, ratio

ROOT = Path(__file__).parent.parent
PACKAGE = "adam_atan2_pytorch"
SIZES = [2_359_296] * 2 + [589_824] * 4 + [2_304] * 20 + [512] * 60  # as a residual network's
LIMITS = {"torch's fused Adam": 1.10, "the package": 0.50}


def steps() -> dict:
    """A step of each, on tensors of its own."""
    make = {
        "ours": lambda params: gaf.create_optimizer("adam-atan2", params, fused=True),
        "torch's fused Adam": lambda params: torch.optim.Adam(params, fused=True),
    }
    if importlib.util.find_spec(PACKAGE) is not None:
        from adam_atan2_pytorch import AdamAtan2  # type: ignore[import-not-found]

        make["the package"] = AdamAtan2
    found = {}
    for name, made in make.items():
        params = [torch.randn(n) for n in SIZES]
        for p in params:
            p.grad = 1e-2 * torch.randn_like(p)
        found[name] = made(params).step
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", help="a folder for an environment with the package")
    parser.add_argument("--repeats", type=int, default=51)
    given = parser.parse_args()
    if given.environment and importlib.util.find_spec(PACKAGE) is None:
        packages = ROOT / "tests" / "optim" / "originals" / "packages.py"
        making = [sys.executable, packages, given.environment]
        subprocess.run(making, check=True, stdout=subprocess.DEVNULL)
        python = Path(given.environment) / "bin" / "python"
        again = [python, __file__, "--repeats", str(given.repeats)]
        subprocess.run(again, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
        return
    threads, load = torch.get_num_threads(), os.getloadavg()[0]
    print(f"{platform.machine()}, torch {torch.__version__}, {threads} threads, load {load:.1f}")
    times: dict[str, list[float]] = {}
    collect(steps(), times, repeats=given.repeats)
    for name, limit in LIMITS.items():
        if name in times:
            found = ratio(times["ours"], times[name])
            verdict = "holds" if found.median <= limit else "does not hold"
            print(f"ours / {name}: {found:.2f}, at most {limit:.2f}: {verdict}")


if __name__ == "__main__":
    main()
