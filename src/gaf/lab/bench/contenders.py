"""Who runs: every way to do one step, on the same tensors.

All contenders of an optimizer share parameters, gradients and state, so that they meet the same pages of
memory. The clipping thresholds are out of reach: torch multiplies and clamps all the same, and the
gradients stay as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import gaf
from gaf.kernels import native
from gaf.lab.bench.authors import authors_step
from gaf.lab.bench.limit import kind, streaming_pass
from gaf.lab.bench.shapes import Shapes

FUNCTIONS = tuple(native.FUNCTIONS)
ALPHA, BETA = 0.1, 20.0
IMPLEMENTATIONS = ("single", "foreach", "fused")
HYPER: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 1e-3, "momentum": 0.9, "weight_decay": 5e-4},
    "Adam": {"lr": 1e-3},
    "AdamW": {"lr": 1e-3, "weight_decay": 1e-2},
}
STATE = {"SGD": ("velocity",), "Adam": ("mean", "square"), "AdamW": ("mean", "square")}
CLIPS: dict[str, Callable[[Sequence[Tensor]], Any]] = {
    "clip_grad_norm_": lambda params: clip_grad_norm_(params, 1e9),
    "clip_grad_value_": lambda params: clip_grad_value_(params, 1e9),
}
Step = Callable[[], Any]


@dataclass(frozen=True)
class Rule:
    """One way to do a step."""

    optimizer: str
    who: (
        str  # "gaf", "torch", "authors", "limit", "passes", or a clipping that torch's step follows
    )
    implementation: str | None = None
    function: str | None = None
    placement: str | None = None

    def __str__(self) -> str:
        if self.who == "limit":
            return "bandwidth limit"
        if self.who == "passes":
            return "the same bytes, torch in passes"
        if self.who == "authors":
            return f"authors' formulation, {self.function}"
        if self.who in CLIPS:
            return f"{self.who}, then torch {self.implementation}"
        return " ".join(
            filter(None, (self.who, self.function, self.placement, self.implementation))
        )


@dataclass
class Model:
    """Parameters with gradients, and the state of the optimizers."""

    shapes: Shapes
    params: list[Tensor] = field(init=False)
    _state: dict[str, list[Tensor]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.params = [1e-2 * torch.randn(shape) for shape in self.shapes.tensors]
        for p in self.params:
            p.grad = 1e-3 * torch.randn_like(p)

    @property
    def grads(self) -> list[Tensor]:
        return [p.grad for p in self.params if p.grad is not None]

    def state(self, name: str) -> list[Tensor]:
        """The tensors of this name, made when they are first asked for."""
        if name not in self._state:
            small = 1e-6 if name == "square" else 1e-3
            self._state[name] = [torch.full_like(p, small) for p in self.params]
        return self._state[name]

    def forget(self, optimizer: str) -> None:
        """Free the state of an optimizer."""
        for name in STATE[optimizer]:
            self._state.pop(name, None)


def contenders(optimizer: str, model: Model, implementations: Sequence[str]) -> dict[Rule, Step]:
    """The step of every rule of an optimizer: torch's, ours, clipping, the authors', and the limit."""
    params, states = model.params, [model.state(name) for name in STATE[optimizer]]
    found: dict[Rule, Step] = {}
    for implementation in implementations:
        found[Rule(optimizer, "torch", implementation)] = step_of(
            torch.optim, optimizer, model, implementation
        )
    if "fused" in implementations:
        torch_fused = found[Rule(optimizer, "torch", "fused")]
        for name, clip in CLIPS.items():
            found[Rule(optimizer, name, "fused")] = lambda clip=clip: (clip(params), torch_fused())
    for rule in _ours(optimizer, implementations):
        assert rule.implementation is not None
        found[rule] = step_of(
            gaf,
            optimizer,
            model,
            rule.implementation,
            activation=f"{rule.function}({ALPHA}, {BETA})",
            placement=rule.placement,
        )
    if optimizer == "SGD":
        for f in FUNCTIONS:
            found[Rule(optimizer, "authors", None, f)] = lambda f=f: authors_step(
                params, states[0], f, ALPHA, BETA, **HYPER["SGD"]
            )
    found[Rule(optimizer, kind())] = streaming_pass(params, model.grads, states)
    return found


def _ours(optimizer: str, implementations: Sequence[str]) -> Iterator[Rule]:
    placements = gaf.PLACEMENTS if optimizer == "SGD" else ("gradient",)
    for f, placement, how in itertools.product(FUNCTIONS, placements, implementations):
        if how != "fused" or native.INSTRUCTION_SETS:
            yield Rule(optimizer, "gaf", how, f, placement)


def step_of(house: Any, optimizer: str, model: Model, implementation: str, **extra: Any) -> Step:
    """``step`` of the optimizer of torch.optim or of gaf, with the shared state in it."""
    flags = {"foreach": False} if implementation == "single" else {implementation: True}
    opt = getattr(house, optimizer)(model.params, **HYPER[optimizer], **flags, **extra)
    states = [model.state(name) for name in STATE[optimizer]]
    for i, p in enumerate(model.params):
        if optimizer == "SGD":
            velocity = states[0][i]
            opt.state[p] = {"momentum_buffer": velocity, "gaf_velocity": velocity}
        else:
            mean, square = states
            step = torch.tensor(10.0)
            opt.state[p] = {"step": step, "exp_avg": mean[i], "exp_avg_sq": square[i]}
    return opt.step
