"""A training loop written by hand, for the frameworks' own to be compared with step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import gaf

F = gaf.Arctan(0.1, 20)
STEPS = 4


def make_model() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))


def samples(number: int) -> list[tuple[Tensor, Tensor]]:
    """Samples in a fixed order."""
    generator = torch.Generator().manual_seed(1)
    xs = torch.randn(number, 5, generator=generator)
    return list(zip(xs, torch.sin(xs.sum(dim=1, keepdim=True)), strict=True))


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def act(model: nn.Module) -> None:
    """f on each gradient, by its formula."""
    for p in model.parameters():
        if p.grad is not None:
            p.grad.copy_(F(p.grad))


def by_hand(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list[Any],
    loss_of: Callable[[nn.Module, Any], Tensor],
    *,
    accumulate: int = 1,
    clip: float = 0.0,
    autocast: torch.dtype | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> list[Tensor]:
    """Plain PyTorch, f acting right before a step of torch's optimizer; the weights after each step."""
    seen = []
    for first in range(0, len(batches), accumulate):
        optimizer.zero_grad()
        for batch in batches[first : first + accumulate]:
            with torch.autocast(
                "cpu", dtype=autocast, enabled=autocast is not None, cache_enabled=False
            ):
                loss = loss_of(model, batch) / accumulate
            (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        act(model)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        seen.append(weights(model))
    return seen


def assert_equal_steps(found: list[Tensor], expected: list[Tensor]) -> None:
    """To the bit, and that something happened."""
    assert len(found) == len(expected) > 1
    for step, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(a, b), f"step {step}: off by {(a - b).abs().max()}"
    assert not torch.equal(expected[0], expected[-1])
