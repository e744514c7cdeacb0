"""HOW FAST: the same rules over lists of tensors, judged against :mod:`gaf.optim.rules`."""

from __future__ import annotations

import shutil
from typing import Any

import torch

from gaf.kernels import native

__all__ = ["available"]


def available() -> dict[str, Any]:
    """The implementations this machine has, as a dict.

    Returns:
        ``native``: the instruction sets the native kernels can use here, best first; empty if they were not
        built. ``threads``: how many threads they use. ``compiler``: the C++ compiler that torch.compile finds
        for rules without a native kernel on CPUs, or None.

    Example:
        >>> import gaf.kernels
        >>> sorted(gaf.kernels.available())
        ['compiler', 'native', 'threads']
    """
    return {
        "native": list(native.INSTRUCTION_SETS),
        "threads": torch.get_num_threads(),
        "compiler": shutil.which("g++") or shutil.which("clang++") or shutil.which("cl"),
    }
