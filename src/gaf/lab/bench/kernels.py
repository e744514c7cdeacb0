"""What this machine has, and what serves which dtype: ``gaf bench --kernels``."""

from __future__ import annotations

from typing import Any

import torch
from rich.console import Group
from rich.table import Table

import gaf
import gaf.kernels
from gaf.kernels import native
from gaf.optim.base import implementation
from gaf.optim.settings import resolve

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)


def kernels() -> dict[str, Any]:
    """What is available, and which implementation an optimizer picks by itself, by dtype and function."""
    served = {}
    for dtype in DTYPES:
        p = torch.zeros(8, dtype=dtype, requires_grad=True)
        name = str(dtype).removeprefix("torch.")
        served[name] = {f: _implementation(p, f) for f in gaf.names()}
    chosen = native.instruction_set() if native.INSTRUCTION_SETS else None
    return {**gaf.kernels.available(), "instruction_set": chosen, "served_by": served}


def _implementation(p: torch.Tensor, function: str) -> str:
    group = gaf.SGD([p], momentum=0.9, activation=function).param_groups[0]
    acting = resolve(group, gaf.SGD.rule)
    assert acting is not None
    return implementation(gaf.SGD.rule, group, acting, [p], [p.clone()], [p.clone()])[0]


def table(found: dict[str, Any]) -> Group:
    """The same for people."""
    sets = ", ".join(found["native"]) or "not built"
    lines = [f"native kernels: {sets}"]
    if found["instruction_set"]:
        lines[0] += f" (in use: {found['instruction_set']})"
    lines.append(f"threads:        {found['threads']}")
    lines.append(
        f"C++ compiler:   {found['compiler'] or 'none'} (for fused=True without a native kernel)"
    )
    served = Table(title="What serves a dense CPU tensor", title_justify="left")
    served.add_column("function")
    for dtype in found["served_by"]:
        served.add_column(dtype)
    for f in gaf.names():
        served.add_row(f, *(by_function[f] for by_function in found["served_by"].values()))
    return Group("\n".join(lines), served)
