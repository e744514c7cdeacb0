"""Who runs: every way to do one step, on the same tensors.

All contenders of an optimizer share parameters, gradients and state, so that they meet the same pages of
memory. The clipping thresholds are out of reach: torch multiplies and clamps all the same, and the
gradients stay as they are.

The authors' formulation is written from its description: a Python loop, several passes over memory, with
the placement ``"momentum"``. Its Log goes through ReLU, which rounds tiny gradients to 0 where
:class:`gaf.Log` does not.

The bandwidth limit is a pass that moves the bytes of a step and computes nothing. In fp32, SGD with momentum
reads w, g, v and writes w, v: 20 bytes a parameter. Adam reads w, g, m, v and writes w, m, v: 28. The native
kernels have such a pass. Without it torch's in-place operations move the same bytes (v += 0 g reads two and
writes one, w *= 1 reads one and writes one) in several passes, which is slower than one; they are shown under
a name of their own, and the limit stays unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import gaf
from gaf.functions import PAPER
from gaf.kernels import native
from gaf.lab.bench.shapes import Shapes

FUNCTIONS = tuple(family.name for family in PAPER)  # what the authors have code for, too
AUTO = gaf.Auto.name
GRADIENTS = "gradients"  # in the place of an optimizer: what is called in front of one
ALPHA, BETA = 0.1, 20.0
IMPLEMENTATIONS = ("single", "foreach", "fused")
HYPER: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 1e-3, "momentum": 0.9, "weight_decay": 5e-4},
    "Adam": {"lr": 1e-3},
    "AdamW": {"lr": 1e-3, "weight_decay": 1e-2},
}
STATE = {
    "SGD": ("velocity",),
    "Adam": ("mean", "square"),
    "AdamW": ("mean", "square"),
    GRADIENTS: (),
}
CLIPS: dict[str, Callable[[Sequence[Tensor]], Any]] = {
    "clip_grad_norm_": lambda params: clip_grad_norm_(params, 1e9),
    "clip_grad_value_": lambda params: clip_grad_value_(params, 1e9),
}
Step = Callable[[], Any]


@dataclass(frozen=True)
class Contender:
    """One way to do a step: whose, and with what."""

    optimizer: str
    who: str  # "gaf", "torch", "authors", "limit", "passes", or a clipping before torch's step
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
            return (
                f"{self.who}, then torch {self.implementation}" if self.implementation else self.who
            )
        if self.optimizer == GRADIENTS:
            return f"activate_grad_, {self.function}"
        return " ".join(
            filter(None, (self.who, self.function, self.placement, self.implementation))
        )


def base_of(optimizer: str) -> Contender:
    """What the contenders of an optimizer are compared with."""
    if optimizer == GRADIENTS:
        return Contender(GRADIENTS, "clip_grad_norm_")
    return Contender(optimizer, "torch", "fused")


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


def contenders(
    optimizer: str, model: Model, implementations: Sequence[str]
) -> dict[Contender, Step]:
    """The step of every contender of an optimizer: torch's, ours, clipping, the authors', and the limit.

    Of :data:`GRADIENTS` what changes them in place; it is the last that a model serves.
    """
    if optimizer == GRADIENTS:
        return _in_front(model.params)
    params, states = model.params, [model.state(name) for name in STATE[optimizer]]
    steps: dict[Contender, Step] = {}
    for how in implementations:
        steps[Contender(optimizer, "torch", how)] = step_of(torch.optim, optimizer, model, how)
    if "fused" in implementations:
        torch_fused = steps[Contender(optimizer, "torch", "fused")]
        for name, clip in CLIPS.items():
            steps[Contender(optimizer, name, "fused")] = lambda clip=clip: (
                clip(params),
                torch_fused(),
            )
    sgd = optimizer == "SGD"
    rules = list(itertools.product(FUNCTIONS, gaf.PLACEMENTS if sgd else ("gradient",)))
    rules += [(AUTO, "gradient")] if sgd else []
    for (f, place), how in itertools.product(rules, implementations):
        if how != "fused" or native.INSTRUCTION_SETS:
            activation = AUTO if f == AUTO else f"{f}({ALPHA}, {BETA})"
            steps[Contender(optimizer, "gaf", how, f, place)] = step_of(
                gaf, optimizer, model, how, activation=activation, placement=place
            )
    if sgd:
        for f in FUNCTIONS:
            steps[Contender(optimizer, "authors", None, f)] = lambda f=f: authors_step(
                params, states[0], f, ALPHA, BETA, **HYPER["SGD"]
            )
    steps[Contender(optimizer, kind())] = streaming_pass(params, model.grads, states)
    return steps


def _in_front(params: Sequence[Tensor]) -> dict[Contender, Step]:
    """Clipping, and activation in place. The fixed points of these functions are no subnormal numbers."""
    steps: dict[Contender, Step] = {
        Contender(GRADIENTS, name): lambda clip=clip: clip(params) for name, clip in CLIPS.items()
    }
    for f in FUNCTIONS if native.INSTRUCTION_SETS else ():
        activation = gaf.parse(f"{f}({ALPHA}, {BETA})")
        steps[Contender(GRADIENTS, "gaf", "fused", f)] = lambda activation=activation: (
            gaf.activate_grad_(params, activation)
        )
    return steps


def step_of(house: Any, optimizer: str, model: Model, implementation: str, **extra: Any) -> Step:
    """``step`` of the optimizer of torch.optim or of gaf, with the shared state in it."""
    flags = {"foreach": False} if implementation == "single" else {implementation: True}
    opt = getattr(house, optimizer)(model.params, **HYPER[optimizer], **flags, **extra)
    states = zip(*(model.state(name) for name in STATE[optimizer]), strict=True)
    for p, tensors in zip(model.params, states, strict=True):
        if optimizer == "SGD":
            opt.state[p] = dict.fromkeys(("momentum_buffer", "gaf_velocity"), *tensors)
        else:
            mean, square = tensors
            opt.state[p] = {"step": torch.tensor(10.0), "exp_avg": mean, "exp_avg_sq": square}
    return opt.step


FORMULAS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    "arctan": lambda x, alpha, beta: alpha * torch.atan(beta * x),
    "tanh": lambda x, alpha, beta: alpha * torch.tanh(beta * x),
    "log": lambda x, alpha, beta: (
        alpha * (torch.log(torch.relu(beta * x) + 1) - torch.log(torch.relu(-beta * x) + 1))
    ),
}


@torch.no_grad()
def authors_step(
    params: Sequence[Tensor],
    velocities: Sequence[Tensor],
    function: str,
    alpha: float,
    beta: float,
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
) -> None:
    """One step, in place, of parameters whose velocities exist already."""
    f = FORMULAS[function]
    for p, velocity in zip(params, velocities, strict=True):
        assert p.grad is not None
        d_p = p.grad.add(p, alpha=weight_decay)
        velocity.mul_(momentum).add_(d_p)
        p.add_(f(velocity, alpha, beta), alpha=-lr)


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
