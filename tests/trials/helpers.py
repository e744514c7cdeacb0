"""A script's call in a run that is asked for something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import gaf
from gaf.trials.request import REQUEST
from gaf.trials.run import VARIABLE, Trial


def asked(patch: pytest.MonkeyPatch, folder: Path, **request: Any) -> Trial:
    """The trial of a script that is run with this request."""
    (folder / REQUEST).write_text(json.dumps(request))
    patch.setenv(VARIABLE, str(folder))
    return gaf.trial()


def weights(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Parameters with values of their own."""
    generator = torch.Generator().manual_seed(0)
    shapes = shapes or ((3, 4), (3,))
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


def train(opt: torch.optim.Optimizer, params: list[Tensor], steps: int = 4) -> list[Tensor]:
    """Steps with gradients of their own; what became of the parameters."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator)
        opt.step()
    return [p.detach().clone() for p in params]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    """To the bit."""
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
