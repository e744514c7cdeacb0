"""How far it is from ``step()`` to the native loop: few modules, few functions, fewer calls than torch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import gaf
from gaf.kernels import native

if not native.INSTRUCTION_SETS:
    pytest.skip("the native kernels were not built", allow_module_level=True)
if native._TABLE is None:
    pytest.skip(
        "this torch has no table of DLPack's: Python looks at each tensor", allow_module_level=True
    )

HOUSE = Path(gaf.__file__).parent
TENSORS = 161  # as ResNet-50 has


def calls(kind, **kwargs) -> list[tuple[str, str]]:
    """The Python functions that a third step enters, by file and name."""
    params = [torch.ones(1, requires_grad=True) for _ in range(TENSORS)]
    opt = kind(params, lr=0.1, fused=True, **kwargs)
    for p in params:
        p.grad = torch.ones(1)
    for _ in range(2):
        opt.step()
    entered = []

    def note(frame, event, _):
        if event == "call":
            entered.append((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        opt.step()
    finally:
        sys.setprofile(None)
    return entered


@pytest.mark.parametrize(("name", "functions"), [("SGD", 12), ("Adam", 14)])
def test_the_way_is_short(name, functions):
    kwargs = {"momentum": 0.9} if name == "SGD" else {}
    ours = calls(getattr(gaf, name), activation="arctan(0.1, 20)", **kwargs)
    here = {(file, name) for file, name in ours if Path(file).is_relative_to(HOUSE)}
    named = {(file, name) for file, name in here if not name.startswith("<")}
    assert len({file for file, _ in here}) <= 4, here
    assert len(named) <= functions, named
    assert len(ours) < len(calls(getattr(torch.optim, name), **kwargs))
