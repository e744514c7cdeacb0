"""Step (a): a short training without f, which records how large gradients are, layer by layer.

The paper asks for the largest gradient of a whole training, and notes that it appears early. One number is
not enough where gradients vanish: a layer near the input may see 1e-8 while the last one sees 1e-2, and
the same β cannot suit a value that is not on the scale of what it multiplies. Hence quantiles for each layer.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.lab.engine import rng
from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.distributed import make_fabric
from gaf.lab.engine.loop import steps_of, train_step
from gaf.lab.engine.run import prepare
from gaf.lab.engine.signals import Wish
from gaf.lab.engine.state import Run
from gaf.lab.study.settings import without_function
from gaf.lab.tasks import load_task
from gaf.optim.adapt import spacing

QUANTILES = (0.1, 0.5, 0.9, 0.99)
SAMPLE = 65_536  # elements of a tensor that quantiles are taken of, evenly spaced
SHARE = 0.05  # of the training
FEWEST, MOST = 10, 500  # steps


@dataclass(frozen=True)
class Sizes:
    """|x| over the elements of one tensor that are not 0: the largest, and quantiles."""

    max: float
    quantiles: tuple[float, ...]  # at QUANTILES


@dataclass
class Layer:
    """One parameter tensor over the steps of a probe."""

    name: str
    shape: tuple[int, ...]
    weight: float  # root mean square of its elements before the first step
    gradient: list[Sizes] = field(default_factory=list)
    momentum: list[Sizes] = field(default_factory=list)  # empty where the rule keeps none

    def typical(self, what: str = "gradient", quantile: float = 0.5) -> float:
        """The median over steps of a quantile of |g| or |v|; 0 where all elements always were 0."""
        at = QUANTILES.index(quantile)
        seen = [sizes.quantiles[at] for sizes in getattr(self, what) if sizes.quantiles[at] > 0]
        return statistics.median(seen) if seen else 0.0

    def largest(self, what: str = "gradient") -> float:
        """Over all steps."""
        return max((sizes.max for sizes in getattr(self, what)), default=0.0)


@dataclass(frozen=True)
class Probe:
    """What a probe saw."""

    config: RunConfig
    steps: int
    of: int  # steps of the whole training
    losses: tuple[float, ...]  # before each step
    layers: tuple[Layer, ...]
    seconds_per_step: float

    @property
    def weights(self) -> tuple[Layer, ...]:
        """The layers' weights, without biases and norms; all tensors where there are none."""
        weights = tuple(
            layer for layer in self.layers if len(layer.shape) > 1 and layer.typical() > 0
        )
        return weights or tuple(layer for layer in self.layers if layer.typical() > 0)

    def largest(self, what: str = "gradient") -> float:
        """The largest |g|, or |v|, of the whole probe."""
        return max(layer.largest(what) for layer in self.layers)

    @property
    def spread(self) -> float:
        """How many times the layer with the largest typical |g| exceeds the one with the smallest."""
        typical = [layer.typical() for layer in self.weights]
        return max(typical) / min(typical) if typical else 1.0

    @property
    def when(self) -> int:
        """The step, counted from 1, at which |g| was largest."""
        per_step = [max(layer.gradient[i].max for layer in self.layers) for i in range(self.steps)]
        return 1 + per_step.index(max(per_step))

    def record(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "steps": self.steps,
            "of": self.of,
            "largest": self.largest(),
            "when": self.when,
            "spread": self.spread,
            "losses": list(self.losses),
            "quantiles": list(QUANTILES),
            "layers": [
                {
                    "name": layer.name,
                    "shape": list(layer.shape),
                    "weight": layer.weight,
                    "max": [sizes.max for sizes in layer.gradient],
                    "gradient": [layer.typical(quantile=q) for q in QUANTILES],
                    "momentum": [layer.typical("momentum", q) for q in QUANTILES],
                }
                for layer in self.layers
            ],
        }


def length(total: int) -> int:
    """How many steps of a training a probe takes.

    Example:
        >>> length(1140), length(100), length(5), length(10**6)
        (57, 10, 5, 500)
    """
    return min(total, max(FEWEST, min(MOST, round(SHARE * total))))


def probe(
    config: RunConfig,
    steps: int | None = None,
    seen: Callable[[int, int], None] = lambda step, total: None,
) -> Probe:
    """Train the first steps of a config without its function, and measure.

    Args:
        config: what to train; it must not need several devices.
        steps: unset, a twentieth of the training.
        seen: is called with (step, steps) after each.

    Raises:
        GafError: the loss is not a finite number, or no gradient arrives anywhere.
    """
    if config.devices * config.nodes > 1:
        raise GafError("a probe trains on one device: set devices=1, nodes=1")
    plain, _ = without_function(config)
    plain = plain.model_copy(update={"monitor_every": 0, "compile": False})
    with rng.own_settings(plain.threads):
        run = prepare(plain, Path(), load_task(plain.task), make_fabric(plain), Wish())
        return _measured(run, length(run.total) if steps is None else min(steps, run.total), seen)


def _measured(run: Run, steps: int, seen: Callable[[int, int], None]) -> Probe:
    model: Any = run.model.module  # Fabric's wrapper around it has other names
    layers = {
        p: Layer(name, tuple(p.shape), p.detach().float().square().mean().sqrt().item())
        for name, p in model.named_parameters()
        if p.requires_grad
    }
    losses: list[float] = []
    optimizer = run.optimizer.optimizer

    looking = 0.0  # seconds: no part of what a step costs

    def before(*_: Any) -> None:
        nonlocal looking
        began = time.perf_counter()
        for p, layer in layers.items():
            layer.gradient.append(sizes(p.grad))
        looking += time.perf_counter() - began

    def after(*_: Any) -> None:
        nonlocal looking
        began = time.perf_counter()
        for p, layer in layers.items():
            velocity = optimizer.state[p].get("momentum_buffer")
            if velocity is not None:
                layer.momentum.append(sizes(velocity))
        looking += time.perf_counter() - began

    hooks = [
        optimizer.register_step_pre_hook(before),
        optimizer.register_step_post_hook(after),
    ]
    began = time.perf_counter()
    try:
        for parts, stream in _stream(run, steps):
            train_step(run, parts, stream)
            losses.append(run.loss_sum.item())
            run.loss_sum.zero_()
            if not math.isfinite(losses[-1]):
                raise GafError(_not_finite(run, losses))
            seen(run.state.step, steps)
    finally:
        for hook in hooks:
            hook.remove()
    seconds = (time.perf_counter() - began - looking) / steps
    probe = Probe(run.config, steps, run.total, tuple(losses), tuple(layers.values()), seconds)
    if not probe.largest() > 0:
        raise GafError(
            f"every gradient of {run.config.name} is 0, so no function can act on any: "
            "does the loss depend on the model?"
        )
    return probe


def _stream(run: Run, steps: int) -> Any:
    while run.state.step < steps:
        for step in steps_of(run, *divmod(run.state.step, run.sampler.steps)):
            yield step
            if run.state.step >= steps:
                return


def _not_finite(run: Run, losses: list[float]) -> str:
    if len(losses) == 1:
        return (
            f"the loss of {run.config.name} is {losses[0]} at the first step, before anything was "
            "learned: check the data, the model and the loss"
        )
    return (
        f"the loss of {run.config.name} without a function became {losses[-1]} at step {len(losses)}: "
        f"lower the learning rate {run.config.optimizer.lr:g} (--set optimizer.lr=...)"
    )


def sizes(tensor: Tensor | None) -> Sizes:
    """The sizes of a tensor's elements; torch.quantile refuses large ones, so quantiles are of a sample.

    Example:
        >>> sizes(torch.tensor([0.0, -3.0, 1.0, 2.0])).quantiles[1], sizes(None).max
        (2.0, 0.0)
    """
    if tensor is None or tensor.numel() == 0:
        return Sizes(0.0, (0.0,) * len(QUANTILES))
    flat = tensor.detach().abs().flatten().float()
    some = flat[:: spacing(flat.numel(), sample=SAMPLE)]
    some = some[some > 0]
    if not some.numel():
        return Sizes(flat.max().item(), (0.0,) * len(QUANTILES))
    quantiles = torch.quantile(some, torch.tensor(QUANTILES, device=some.device))
    return Sizes(flat.max().item(), tuple(quantiles.tolist()))
