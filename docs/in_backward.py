"""Memory of a training inside backward: `python docs/in_backward.py` rewrites a table of docs/in-backward.md.

The numbers come from results/in-backward.json; `python docs/in_backward.py --measure` writes it anew, in a
minute, on Linux. Each training is a process of its own: 20 linear layers of 1024 by 1024, three steps. Its
gradients are counted by a hook; its memory is what the system says it took at most, less what it had before
the model was made.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import gaf
from gaf.common.files import write_whole
from gaf.lab.bench import machine

ROOT = Path(__file__).parent.parent
PAGE, RECORD = ROOT / "docs" / "in-backward.md", ROOT / "results" / "in-backward.json"
TABLE = re.compile(r"(<!-- results/in-backward -->\n\n)((?:\|.*\n)*)")
LAYERS, WIDTH, BATCH, STEPS = 20, 1024, 8, 3

OPTIMIZERS = {
    "torch.optim.AdamW, fused": lambda ps: torch.optim.AdamW(ps, lr=1e-3, fused=True),
    'gaf.AdamW, "arctan(0.1, 20)"': lambda ps: gaf.AdamW(ps, activation="arctan(0.1, 20)"),
    "gaf.SGD, gaf.Auto()": lambda ps: gaf.SGD(ps, lr=1e-3, activation=gaf.Auto()),
}


def one(name: str, inside: bool) -> dict[str, Any]:
    """Bytes of gradients, and of all memory, at most."""
    torch.optim.SGD([torch.ones(1, requires_grad=True)]).step()  # imports what a step imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    params, most = list(model.parameters()), 0

    def look(_: Any) -> None:
        nonlocal most
        most = max(most, sum(p.grad.nbytes for p in params if p.grad is not None))

    for p in params:  # before that of in_backward, which frees the gradient
        p.register_post_accumulate_grad_hook(look)
    opt = OPTIMIZERS[name](params)
    if inside:
        gaf.in_backward(opt)
    for step in range(STEPS):
        opt.zero_grad()
        model(torch.full((BATCH, WIDTH), 1.0 + step)).square().mean().backward()
        opt.step()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = sum(p.detach().double().sum().item() for p in params)
    return {"gradients": most, "peak": 1024 * (after - before), "sum_of_weights": total}


# glibc puts a gradient that is freed beside new state, and cannot use the hole again; with this it gives
# large blocks back to the system.
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}
WAYS = {"ordinary": {}, "inside": {}, "inside, given back": GIVEN_BACK}


def measure() -> dict[str, Any]:
    runs = {}
    for name in OPTIMIZERS:
        runs[name] = {}
        for way, setting in WAYS.items():
            command = [sys.executable, __file__, "--one", name, way.partition(",")[0]]
            environment = {**os.environ, **setting}
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, env=environment
            )
            runs[name][way] = json.loads(done.stdout)
        print(name, runs[name], flush=True)
    numbers = {"layers": LAYERS, "width": WIDTH, "batch": BATCH, "steps": STEPS}
    return {
        "command": "python docs/in_backward.py --measure",
        **machine.facts(),
        **numbers,
        "runs": runs,
    }


def table() -> str:
    heads = ("optimizer", "gradients, MB", "inside backward", "all memory, MB", "inside backward")
    heads += ("with `MALLOC_MMAP_THRESHOLD_`",)
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, ways in json.loads(RECORD.read_text("utf-8"))["runs"].items():
        sizes = [ways[way]["gradients"] for way in ("ordinary", "inside")]
        sizes += [ways[way]["peak"] for way in WAYS]
        rows.append(f"| `{name}` | " + " | ".join(f"{size / 2**20:.1f}" for size in sizes) + " |")
    return "".join(row + "\n" for row in rows)


def written(text: str) -> str:
    return TABLE.sub(lambda match: match[1] + table(), text)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "--one" in sys.argv:
        name, way = sys.argv[-2:]
        print(json.dumps(one(name, way == "inside")))
    else:
        if "--measure" in sys.argv:
            write_whole(RECORD, json.dumps(measure(), indent=1).encode() + b"\n")
        write_whole(PAGE, written(PAGE.read_text("utf-8")).encode())
