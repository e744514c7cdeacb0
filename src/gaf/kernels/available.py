"""What this machine can run."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from gaf.kernels import native


def available() -> dict[str, Any]:
    """The implementations this machine has, as a dict.

    Returns:
        ``native``: the instruction sets the native kernels can use here, best first; empty if they were not
        built. ``threads``: how many threads they use. ``triton``: whether Triton kernels can run.

    Example:
        >>> import gaf.kernels
        >>> sorted(gaf.kernels.available())
        ['native', 'threads', 'triton']
    """
    return {
        "native": list(native.INSTRUCTION_SETS),
        "threads": torch.get_num_threads(),
        "triton": importlib.util.find_spec("triton") is not None and torch.cuda.is_available(),
    }
