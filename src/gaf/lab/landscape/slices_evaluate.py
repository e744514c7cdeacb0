"""The loss of a model at many points of its weight space, without copying or touching the model.

Two ways, equal to rounding. The loop lends the model a second set of tensors once and writes each point into
it. The batch stacks the tensors of many points and evaluates them at once by ``torch.func.vmap``, which pays
where a forward pass is so small that calling it costs more than computing it. It is used where it is clearly
faster over tries in turns. Convolutions, whose weights vmap turns into grouped ones, take it more than twice
the loop's time, so there the loop needs no trial.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

Direction = dict[str, Tensor]

Loss = Callable[[nn.Module], Tensor]
Method = Literal["loop", "batch"]

FEWEST = 512  # points from which on it is tried whether the batch is faster
BUSY = 1e-3  # seconds a point: who computes that long does not gain by fewer calls
MOST = 32  # points at once: more do not stay in the processor's cache
TRIAL: dict[Method, int] = {"loop": 8, "batch": MOST}  # points of a try
BYTES = 1 << 28  # of stacked weights at once
GAIN = 0.8  # of the loop's fastest try, a point: what the batch's slowest may take


class _Lent(nn.Module):
    """Runs a function on a model; ``functional_call`` of this module lends the model other tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, run: Callable[[nn.Module], Tensor]) -> Tensor:
        return run(self.model)


@contextmanager
def looking(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; each module's own mode comes back, also where they differed."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


class Evaluator:
    """Losses at points w + c₁d₁ + c₂d₂ + ...

    Args:
        model: whose weights are w.
        loss: gives one number for a model.
        directions: d₁, d₂, ...
    """

    def __init__(self, model: nn.Module, loss: Loss, directions: Sequence[Direction]) -> None:
        self._lent, self._loss = _Lent(model), loss
        tensors = dict(self._lent.named_parameters()) | dict(self._lent.named_buffers())
        names = dict.fromkeys(name for direction in directions for name in direction)
        self._names = [f"model.{name}" for name in names]
        self._w = [tensors[name].detach() for name in self._names]
        self._d = [
            [d.get(name, torch.zeros_like(w)) for name, w in zip(names, self._w, strict=True)]
            for d in directions
        ]

    def loop(self, points: Tensor) -> Tensor:
        """One point after the other."""
        here = [w.clone() for w in self._w]

        def run(model: nn.Module) -> Tensor:
            losses = []
            for point in points.tolist():
                torch._foreach_copy_(here, self._w)
                for c, d in zip(point, self._d, strict=True):
                    torch._foreach_add_(here, d, alpha=c)
                losses.append(self._loss(model))
            return torch.stack(losses)

        return self._call(here, run).double()

    def batch(self, points: Tensor) -> Tensor:
        """All points at once."""

        def at(tensors: list[Tensor]) -> Tensor:
            return self._call(tensors, self._loss)

        return torch.func.vmap(at)(self._stacked(points)).double()

    @property
    def convolves(self) -> bool:
        """Whether weights of more than two axes move."""
        return any(w.ndim > 2 for w in self._w)

    @property
    def most(self) -> int:
        """How many points at once fit the memory that stacked weights may take."""
        size = sum(w.numel() * w.element_size() for w in self._w)
        return max(1, min(MOST, BYTES // max(1, size)))

    def _stacked(self, points: Tensor) -> list[Tensor]:
        stacked = []
        for i, w in enumerate(self._w):
            c = points.to(w).view(len(points), -1, *[1] * w.ndim)
            stacked.append(w + sum(c[:, k] * d[i] for k, d in enumerate(self._d)))
        return stacked

    def _call(self, tensors: list[Tensor], run: Callable[[nn.Module], Tensor]) -> Tensor:
        named = dict(zip(self._names, tensors, strict=True))
        return torch.func.functional_call(self._lent, named, (run,))


def losses_at(
    model: nn.Module,
    loss: Loss,
    directions: Sequence[Direction],
    points: Tensor,
    method: Method | None = None,
) -> tuple[Tensor, Method]:
    """The losses at points, rows of coefficients, and how they were computed.

    The model is in evaluation mode meanwhile, and afterwards as it was to the bit. Unset, the method is the
    loop unless the batch is clearly faster on the first points, whose losses are kept. Different methods
    agree to 1e-6, the same method gives the same bits.
    """
    evaluator = Evaluator(model, loss, directions)
    with looking(model):
        untried = len(points) < FEWEST or evaluator.convolves or evaluator.most < MOST
        if method == "loop" or (method is None and untried):
            return evaluator.loop(points), "loop"
        if method == "batch":
            parts = points.split(evaluator.most)
            return torch.cat([evaluator.batch(part) for part in parts]), "batch"
        return _timed(evaluator, points)


def _timed(evaluator: Evaluator, points: Tensor) -> tuple[Tensor, Method]:
    ways: dict[Method, Callable[[Tensor], Tensor]] = {
        "loop": evaluator.loop,
        "batch": evaluator.batch,
    }
    parts: list[Tensor] = []
    rest = points

    def tried(method: Method) -> float:
        """Seconds a point."""
        nonlocal rest
        count = TRIAL[method]
        began = time.perf_counter()
        losses = ways[method](rest[:count])
        losses[-1].item()  # waits for a device that computes on its own
        parts.append(losses)
        rest = rest[count:]
        return (time.perf_counter() - began) / count

    if _clearly_faster(tried):
        return torch.cat([*parts, *map(evaluator.batch, rest.split(evaluator.most))]), "batch"
    return torch.cat([*parts, evaluator.loop(rest)]), "loop"


def _clearly_faster(tried: Callable[[Method], float]) -> bool:
    """Whether each try of the batch beats all of the loop; noise can only speak for the loop."""
    loop = min(tried("loop") for _ in range(2))  # the first sets up what is needed once
    if loop > BUSY:
        return False
    try:
        tried("batch")  # likewise
        for _ in range(2):
            batch = tried("batch")
            loop = min(loop, tried("loop"))
            if batch >= GAIN * loop:
                return False
    except (RuntimeError, NotImplementedError, ValueError):
        return False  # the model does what vmap cannot follow
    return True
