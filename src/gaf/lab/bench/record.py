"""A report as JSON, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gaf.lab.bench import limit
from gaf.lab.bench.contenders import ALPHA, BETA, HYPER, Rule
from gaf.lab.bench.run import Report
from gaf.lab.bench.shapes import SHAPES
from gaf.lab.bench.timing import ratio, spread

RESULTS = Path("benchmarks", "results")


def as_dict(report: Report) -> dict[str, Any]:
    """Everything, the single measurements included; times are in seconds."""
    return {
        **report.about,
        "complete": report.complete,
        "repeats": report.plan.repeats,
        "functions": {"alpha": ALPHA, "beta": BETA},
        "optimizers": HYPER,
        "bytes_per_parameter": limit.BYTES,
        "others": {
            f"{name} {optimizer}": each for (name, optimizer), each in report.others.items()
        },
        "shapes": {
            name: {
                "tensors": len(SHAPES[name].tensors),
                "parameters": SHAPES[name].parameters,
                "rows": [row for each in limit.BYTES for row in _rows(times, each)],
            }
            for name, times in report.times.items()
        },
        "memory": {
            "shapes": report.memory_facts.shapes if report.memory_facts else None,
            "rows": [{**asdict(rule), **asdict(each)} for rule, each in report.memory.items()],
        },
        "growth": [
            {"millions": each.millions, "bytes": each.bytes, "rows": _rows(each.seconds, "SGD")}
            for each in report.growth
        ],
        "training": _training(report),
        "targets": [
            {**asdict(target), "ratio": target.ratio and target.ratio.as_dict()}
            for target in report.targets()
        ],
    }


def _rows(times: Mapping[Rule, Sequence[float]], optimizer: str) -> list[dict[str, Any]]:
    base = times.get(Rule(optimizer, "torch", "fused"))
    return [
        {
            **asdict(rule),
            "rule": str(rule),
            **spread(seconds).as_dict(),
            "over_torch_fused": ratio(seconds, base).as_dict() if base else None,
            "seconds": [float(f"{each:.6g}") for each in seconds],
        }
        for rule, seconds in times.items()
        if rule.optimizer == optimizer
    ]


def _training(report: Report) -> list[dict[str, Any]] | None:
    if report.training is None:
        return None
    shares = report.training.shares()
    return [
        {
            **asdict(rule),
            "rule": str(rule),
            "whole": spread(whole).as_dict(),
            "step": spread(report.training.part[rule]).as_dict(),
            "share": spread(shares[rule]).as_dict() if rule in shares else None,
        }
        for rule, whole in report.training.whole.items()
    ]


def write(path: Path, text: str) -> None:
    """Write beside ``path`` first, then rename: a reader sees the old file or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # mkstemp makes it private
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write it indented, with lists of numbers on one line."""
    text = json.dumps(content, indent=1)
    text = re.sub(r"\[[-+\d.e,\s]+\]", lambda found: " ".join(found[0].split()), text)
    write(path, text + "\n")
