"""Spikes in a transformer: `python docs/spikes.py` rewrites the tables of docs/spikes.md.

The numbers come from results/spikes.json; `python docs/spikes.py --measure` runs what is missing there, with
the text in GAF_DATA, some ten seconds a run on one core. A character transformer is trained by AdamW on Tiny
Shakespeare. 1 % of the steps, drawn from the seed and the same for all settings, are spoilt: gradients times
1000, or a loss that is NaN.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import gaf
from gaf.common.files import write_whole
from gaf.lab.bench import machine
from gaf.lab.data import load
from gaf.lab.tasks.language.transformer import Transformer

ROOT = Path(__file__).parent.parent
PAGE, RECORD = ROOT / "docs" / "spikes.md", ROOT / "results" / "spikes.json"
TABLE = re.compile(r"(<!-- results/spikes: (bits|guard) -->\n\n)((?:\|.*\n)*)")

STEPS, WARM_UP, BATCH, SIZE, SPOILT, FACTOR = 300, 20, 16, 32, 0.01, 1000.0
MODEL = {"depth": 2, "width": 48, "heads": 4}
RATE, DECAY, SEEDS, TEST_WINDOWS = 2e-3, 0.1, 5, 1000
TROUBLES = ("clean", "spikes", "nan")

Optimizer = torch.optim.Optimizer
Loop = tuple[Optimizer, Callable[[], Any]]  # and what is done between backward and step


def plain(params: list[nn.Parameter]) -> Optimizer:
    return torch.optim.AdamW(params, lr=RATE, weight_decay=DECAY)


def with_f(params: list[nn.Parameter], activation: Any) -> Loop:
    opt = gaf.AdamW(
        params, lr=RATE, weight_decay=DECAY, activation=activation, placement="gradient"
    )
    return opt, lambda: None


def guarded(params: list[nn.Parameter]) -> Loop:
    opt = plain(params)
    gaf.Guard(opt)
    return opt, lambda: None


def guarded_and_clipped(params: list[nn.Parameter]) -> Loop:
    opt = plain(params)
    guard = gaf.Guard(opt)
    return opt, lambda: guard.observe(clip_grad_norm_(params, 1.0))


# By the name in the table; another row is another line.
SETTINGS: dict[str, Callable[[list[nn.Parameter]], Loop]] = {
    "AdamW": lambda ps: (plain(ps), lambda: None),
    "Guard": guarded,
    "clip_grad_norm_(1)": lambda ps: (plain(ps), lambda: clip_grad_norm_(ps, 1.0)),
    "clip_grad_value_(0.1)": lambda ps: (plain(ps), lambda: clip_grad_value_(ps, 0.1)),
    "arctan(0.1, 20)@gradient": lambda ps: with_f(ps, gaf.Arctan(0.1, 20)),
    "quantileclip@gradient": lambda ps: with_f(ps, gaf.QuantileClip()),
    "Guard, clip_grad_norm_(1)": guarded_and_clipped,
    "auto@gradient": lambda ps: with_f(ps, gaf.Auto()),
}


def run(setting: str, trouble: str, seed: int) -> dict[str, Any]:
    """One training: bits per character of the test, and what a guard has kept out."""
    torch.manual_seed(seed)
    train, test = (load("text", split=split, size=SIZE) for split in ("train", "test"))
    model = Transformer(classes=len(train.classes), size=SIZE, **MODEL)
    params = list(model.parameters())
    opt, between = SETTINGS[setting](params)
    rate = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda t: min(1, (t + 1) / WARM_UP) * (1 + math.cos(math.pi * t / STEPS)) / 2
    )
    spoilt = set(random.Random(seed).sample(range(STEPS), round(SPOILT * STEPS)))
    windows = torch.Generator().manual_seed(seed)
    began = time.process_time()
    for step in range(STEPS):
        start = torch.randint(len(train.codes) - SIZE, (BATCH,), generator=windows)
        window = train.codes[start[:, None] + torch.arange(SIZE + 1)]
        loss = loss_of(model, window)
        if not loss.isfinite():  # for good: the weights are spoilt
            break
        opt.zero_grad()
        (loss * (math.nan if trouble == "nan" and step in spoilt else 1)).backward()
        if trouble == "spikes" and step in spoilt:
            torch._foreach_mul_([p.grad for p in params], FACTOR)
        between()
        opt.step()
        rate.step()
    seconds = time.process_time() - began
    stretch = torch.arange(TEST_WINDOWS)[:, None] * SIZE + torch.arange(SIZE + 1)
    with torch.no_grad():
        bits = loss_of(model, test.codes[stretch]).item() / math.log(2)
    guard = getattr(opt, "gaf_guard", None)
    return {
        "setting": setting,
        "trouble": trouble,
        "seed": seed,
        "bits": bits if math.isfinite(bits) else None,
        "kept_out": None if guard is None else guard.counts,
        "first_spoilt": min(spoilt),
        "seconds": round(seconds, 1),
    }


def loss_of(model: nn.Module, window: torch.Tensor) -> torch.Tensor:
    logits = model(window[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())


def measure() -> None:
    """Run what the record does not have, and write it after each run."""
    record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {"runs": []}
    there = {(one["setting"], one["trouble"], one["seed"]) for one in record["runs"]}
    numbers = {"steps": STEPS, "warm_up": WARM_UP, "batch": BATCH, "size": SIZE, "model": MODEL}
    numbers |= {"rate": RATE, "decay": DECAY, "spoilt": SPOILT, "factor": FACTOR}
    every = itertools.product(SETTINGS, TROUBLES, range(SEEDS))
    for setting, trouble, seed in sorted(every, key=lambda one: one[1] == "clean"):
        if (setting, trouble, seed) not in there:
            record["runs"].append(run(setting, trouble, seed))
            print(record["runs"][-1], flush=True)
            record |= {"command": "python docs/spikes.py --measure", **machine.facts(), **numbers}
            record["fingerprint"] = load("text", split="test", size=SIZE).fingerprint
            write_whole(RECORD, json.dumps(record, indent=1).encode() + b"\n")


def bits_table(record: dict[str, Any]) -> str:
    """Mean and deviation over the seeds, and how many of them were lost to NaN."""
    heads = (
        "setting",
        "clean",
        f"1 % of the steps' gradients × {FACTOR:.0f}",
        "1 % of the losses NaN",
    )
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for setting in SETTINGS:
        cells = []
        for trouble in TROUBLES:
            runs = chosen(record, setting, trouble)
            bits = [one["bits"] for one in runs if one["bits"] is not None]
            lost = len(runs) - len(bits)
            cell = f"{lost} of {len(runs)} lost" if lost else ""
            if len(bits) == SEEDS:
                cell = f"{statistics.mean(bits):.3f} ± {statistics.stdev(bits):.3f}"
            cells.append(cell if len(runs) == SEEDS else "not run")
        rows.append(f"| `{setting}` | " + " | ".join(cells) + " |")
    return "".join(row + "\n" for row in rows)


def guard_table(record: dict[str, Any]) -> str:
    """What a guard kept out, and each seed's distance to the clean run without it."""
    heads = (
        "guarded",
        "trouble",
        "kept out, of the spoilt",
        "minus the clean run of the seed, bits",
    )
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for setting, without in (
        ("Guard", "AdamW"),
        ("Guard, clip_grad_norm_(1)", "clip_grad_norm_(1)"),
    ):
        clean = {one["seed"]: one["bits"] for one in chosen(record, without, "clean")}
        for trouble in TROUBLES:
            runs = chosen(record, setting, trouble)
            if len(runs) < SEEDS:
                continue
            kept_out = sum(one["kept_out"][key] for one in runs for key in ("nonfinite", "spikes"))
            spoilt = 0 if trouble == "clean" else round(SPOILT * STEPS) * len(runs)
            gaps = ", ".join(f"{one['bits'] - clean[one['seed']]:+.3f}" for one in runs)
            gaps = gaps.replace("-", "−")
            rows.append(f"| `{setting}` | {trouble} | {kept_out} of {spoilt} | {gaps} |")
    return "".join(row + "\n" for row in rows)


def chosen(record: dict[str, Any], setting: str, trouble: str) -> list[dict[str, Any]]:
    runs = [one for one in record["runs"] if (one["setting"], one["trouble"]) == (setting, trouble)]
    return sorted(runs, key=lambda one: one["seed"])


def written(text: str) -> str:
    record = json.loads(RECORD.read_text("utf-8"))
    tables = {"bits": bits_table, "guard": guard_table}
    return TABLE.sub(lambda match: match[1] + tables[match[2]](record), text)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "--measure" in sys.argv:
        measure()
    write_whole(PAGE, written(PAGE.read_text("utf-8")).encode())
