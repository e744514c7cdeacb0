"""Theorem 5: gradients below the crossover are enlarged; and what becomes of vanishing and exploding ones.

f acts on the gradients of the parameters, after backpropagation. It enlarges a small number and bounds
a large one; it does not change how gradients vanish or explode on their way through the layers, and a
gradient that has become 0, inf or NaN there is past help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from gaf.common.errors import GafError
from gaf.functions import Activation, Arctan, as_activation
from gaf.lab.theory.families import BATCH, Functions, batches, log_uniform, one, single, uniform
from gaf.lab.theory.learning import ExplodingRNN, deep_sigmoid, digits_loss
from gaf.lab.theory.trials import Example, Trials

STEEP = "αβ > 1"
BELOW = "|g| < ε₃"
NONZERO = "g ≠ 0"


def theorem_5(f: Functions, g: Tensor) -> Trials:
    """|f(g)| > |g| for 0 < |g| < ε₃, one g of shape (cases,) for each function; ε₃ is the crossover."""
    crossover = torch.where(f.slope > 1, f.crossover, math.inf)  # no ε₃ to be below of
    value = f(g)
    return Trials(
        {STEEP: f.slope > 1, BELOW: g.abs() < crossover, NONZERO: g != 0},
        value.abs() > g.abs(),
        lambda case: (
            f"{f.named(case)}, ε₃ = {f.crossover[case]:.4g}: f({g[case]:.4g}) = {value[case]:.4g}"
        ),
    )


def random_gradients(generator: Generator) -> Iterator[Trials]:
    """Gradients of both signs from far below the crossover to above it, and some zeros."""
    for f in batches(generator, slopes=(0.5, 1e4)):
        # up to 0.1 % below the crossover, where f(g) and g still differ by more than rounding
        size = f.scale * log_uniform((1e-12, 0.999), (BATCH,), generator)
        size = torch.where(uniform((BATCH,), generator) < 0.1, f.scale * 2, size)
        size = torch.where(uniform((BATCH,), generator) < 0.01, 0.0, size)
        yield theorem_5(f, torch.where(uniform((BATCH,), generator) < 0.5, size, -size))


def examples() -> dict[str, Example]:
    def case(f: Functions, g: float) -> Trials:
        return theorem_5(f, *single(g))

    steep = one(Arctan(0.1, 20.0))
    return {
        STEEP: Example(
            case(one(Arctan(0.1, 10.0)), 0.01),
            "With αβ = 1 f touches the identity at 0 and stays below it.",
        ),
        BELOW: Example(case(steep, 1.0), "Beyond the crossover f restrains."),
        NONZERO: Example(case(steep, 0.0), "f(0) = 0: a gradient that has vanished stays 0."),
    }


@dataclass(frozen=True)
class LayerGradient:
    """The gradient of one parameter: its size before and after f, and how much of it is enlarged."""

    name: str
    mean: float
    activated_mean: float
    largest: float
    activated_largest: float
    below_crossover: float  # the share of elements


def by_layer(
    model: nn.Module, loss: Callable[[], Tensor], activation: Activation | str
) -> list[LayerGradient]:
    """Gradient magnitudes by parameter, in the order of the model, before and after f."""
    f = as_activation(activation)
    if f is None:
        raise GafError("name a function such as 'arctan(0.1, 20)'")
    named = dict(model.named_parameters())
    value = loss()
    if value.dim():
        raise GafError(f"a loss must be one number, got shape {tuple(value.shape)}")
    gradients = torch.autograd.grad(value, list(named.values()))
    layers = []
    for name, gradient in zip(named, gradients, strict=True):
        before, after = gradient.abs(), f(gradient).abs()
        below = (before < f.crossover).double().mean().item()
        mean, mean_after = before.mean().item(), after.mean().item()
        largest, largest_after = before.max().item(), after.max().item()
        layers.append(LayerGradient(name, mean, mean_after, largest, largest_after, below))
    return layers


def vanishing(f: Activation, depth: int = 12) -> list[LayerGradient]:
    """The weights of a deep sigmoid network on digits, from the input to the output."""
    model = deep_sigmoid(depth)
    layers = by_layer(model, digits_loss(model), f)
    return [layer for layer in layers if layer.name.endswith("weight")]


def exploding(f: Activation) -> list[LayerGradient]:
    """The parameters of an RNN whose gradients explode."""
    model = ExplodingRNN()
    return by_layer(model, digits_loss(model), f)
