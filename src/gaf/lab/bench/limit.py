"""The bandwidth limit: a pass that moves the bytes of a step and computes nothing.

In fp32, SGD with momentum reads w, g, v and writes w, v: 20 bytes a parameter. Adam reads w, g, m, v and
writes w, m, v: 28. The native kernels have such a pass. Without it torch's in-place operations move the same
bytes (v += 0 g reads two and writes one, w *= 1 reads one and writes one) in several passes, which is slower
than one; they are shown under a name of their own, and the limit stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gaf.kernels import native

BYTES = {"SGD": 20, "Adam": 28, "AdamW": 28}  # fp32, for a parameter


def kind() -> str:
    """``"limit"`` where one native pass measures it, ``"passes"`` where torch's several passes do not."""
    return "limit" if native.INSTRUCTION_SETS else "passes"


def streaming_pass(
    ws: Sequence[Tensor], gs: Sequence[Tensor], states: Sequence[Sequence[Tensor]]
) -> Callable[[], None]:
    """A call that reads all the lists and writes all but ``gs``, leaving the values as they are."""
    if kind() == "limit":
        return lambda: native.stream(ws, gs, *states)

    first, *others = [list(state) for state in states]
    kept = [list(ws), *others]

    def passes() -> None:
        torch._foreach_add_(first, list(gs), alpha=0.0)
        for tensors in kept:
            torch._foreach_mul_(tensors, 1.0)

    return passes
