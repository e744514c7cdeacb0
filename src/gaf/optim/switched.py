"""Optimizers that train at other weights than they evaluate at, as schedule-free ones do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def is_switched(optimizer: Any) -> bool:
    """Whether it has the two weights, and ``train()`` and ``eval()`` to change between them."""
    return all(callable(getattr(optimizer, name, None)) for name in ("train", "eval"))


@contextmanager
def evaluation_weights(optimizer: Any) -> Iterator[list[Tensor] | None]:
    """Inside, the model has the weights that its rule evaluates at; yields those that it trains at.

    Afterwards these are back to the bit, as they are not by switching back alone. None: they are the same.
    """
    if not is_switched(optimizer):
        yield None
        return
    params = [p for group in optimizer.param_groups for p in group["params"]]
    kept = [p.detach().clone() for p in params]
    optimizer.eval()
    try:
        yield kept
    finally:
        optimizer.train()
        put_weights(optimizer, kept)


@torch.no_grad()
def put_weights(optimizer: torch.optim.Optimizer, weights: Iterable[Tensor]) -> None:
    """Copy weights, in the order of the groups, into the parameters."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for p, value in zip(params, weights, strict=True):
        p.copy_(value)
