"""Slices through the loss of a model: along a line or across a plane of its weights.

    L(c) = loss(w + c d),    L(a, b) = loss(w + a d₁ + b d₂)

w are the weights of the model, d random directions on the scale of its filters (Li et al., *Visualizing the
Loss Landscape of Neural Nets*, 2018), or the way to another checkpoint of it. A direction names the tensors
it moves; all others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.lab.landscape.slices_evaluate import Loss, Method, losses_at

POINTS = 51  # of a curve
SIDE = 25  # of a surface


@dataclass(frozen=True)
class Slice:
    """Losses over coefficients: ``losses[i]`` at ``axes[0][i]``, ``losses[i, j]`` at both axes' i and j."""

    axes: tuple[Tensor, ...]
    losses: Tensor
    method: Method


def curve(
    model: nn.Module,
    loss: Loss,
    *,
    seed: int = 0,
    radius: float = 1.0,
    points: int = POINTS,
    biases_and_norms: bool = False,
    method: Method | None = None,
) -> Slice:
    """The loss along a random direction through the model.

    Args:
        model: left as it is, to the bit; it is in evaluation mode while it is looked at.
        loss: gives one number for a model, such as ``lambda m: cross_entropy(m(x), y)``.
        seed: of the direction.
        radius: how far to both sides; at 1 each filter is changed by a vector as long as itself.
        points: how many, the middle one is the model.
        biases_and_norms: move these too.
        method: "loop" or "batch"; unset, the faster one.

    Example:
        >>> model, x = nn.Linear(2, 1), torch.ones(4, 2)
        >>> found = curve(model, lambda m: m(x).square().mean(), points=5)
        >>> found.losses[2].item() == model(x).square().mean().item()
        True
    """
    axis = _axis(radius, points)
    direction = random_direction(model, seed, biases_and_norms=biases_and_norms)
    losses, method = losses_at(model, loss, [direction], axis[:, None], method)
    return Slice((axis,), losses, method)


def surface(
    model: nn.Module,
    loss: Loss,
    *,
    seed: int = 0,
    radius: float = 1.0,
    side: int = SIDE,
    biases_and_norms: bool = False,
    method: Method | None = None,
) -> Slice:
    """The loss over the plane of two random directions; the first is the one of :func:`curve`."""
    axis = _axis(radius, side)
    # Seeds of generators far apart, whatever seeds others choose.
    directions = [
        random_direction(model, number, biases_and_norms=biases_and_norms)
        for number in (seed, seed + 0x5DEECE66D)
    ]
    losses, method = losses_at(model, loss, directions, torch.cartesian_prod(axis, axis), method)
    return Slice((axis, axis), losses.view(side, side), method)


def between(
    model: nn.Module,
    loss: Loss,
    state: Mapping[str, Tensor],
    *,
    points: int = POINTS,
    method: Method | None = None,
) -> Slice:
    """The loss on the straight way from the model (at 0) to another state of it (at 1)."""
    if points < 2:
        raise GafError(f"a line needs 2 points at least, got {points}")
    axis = torch.linspace(0, 1, points, dtype=torch.float64)
    losses, method = losses_at(model, loss, [towards(model, state)], axis[:, None], method)
    return Slice((axis,), losses, method)


def _axis(radius: float, points: int) -> Tensor:
    if points < 3 or points % 2 == 0:
        raise GafError(f"a slice needs an odd number of points, 3 at least, got {points}")
    if not 0 < radius < float("inf"):
        raise GafError(f"the radius of a slice is a positive number, got {radius}")
    return torch.linspace(-radius, radius, points, dtype=torch.float64)


Direction = dict[str, Tensor]


def random_direction(model: nn.Module, seed: int, *, biases_and_norms: bool = False) -> Direction:
    """A direction of Gaussian numbers in which each filter d has the norm of the model's filter w.

    d <- d * |w| / |d|, for each slice along the first axis of a tensor (Li et al., 2018). Two models, or two
    layers, can then be compared: networks with normalisation are indifferent to the scale of their weights,
    and a step of 1 is as long as the filter it changes.

    Args:
        model: whose weights the direction starts from.
        seed: the same seed makes the same direction, on any device.
        biases_and_norms: also move tensors of one axis, each of them as one filter.

    Example:
        >>> layer = nn.Linear(3, 2)
        >>> d = random_direction(layer, seed=0)
        >>> list(d), torch.allclose(d["weight"].norm(dim=1), layer.weight.norm(dim=1))
        (['weight'], True)
    """
    generator = torch.Generator().manual_seed(seed)
    direction: Direction = {}
    for name, weight in model.named_parameters():
        if not weight.is_floating_point() or (weight.ndim < 2 and not biases_and_norms):
            continue
        w = weight.detach().double().cpu()
        d = torch.randn(w.shape, generator=generator, dtype=torch.float64)
        axes = tuple(range(1, w.ndim)) if w.ndim > 1 else tuple(range(w.ndim))
        norm = torch.linalg.vector_norm
        scale = norm(w, dim=axes, keepdim=True) / norm(d, dim=axes, keepdim=True).clamp(min=1e-30)
        direction[name] = (d * scale).to(weight)
    if not direction:
        raise GafError(
            f"{type(model).__name__} has no weights of two axes or more; move its biases and norms too"
        )
    return direction


def towards(model: nn.Module, state: Mapping[str, Tensor]) -> Direction:
    """The direction from a model to another state of it: at coefficient 1 one is there.

    Running statistics of norms move too, as those of one end say nothing at the other.

    Raises:
        GafError: the state is one of another model.
    """
    check_state(model, state)
    mine = model.state_dict()
    return {
        name: state[name].to(mine[name]) - mine[name]
        for name in dict(model.named_parameters()) | dict(model.named_buffers())
        if name in mine and mine[name].is_floating_point()
    }


def check_state(model: nn.Module, state: Mapping[str, Tensor], what: str = "the state") -> None:
    """Refuse, in a sentence, a state that does not belong to a model."""
    mine = model.state_dict()
    for name in (*mine, *state):
        if name not in state:
            raise GafError(f"{what} is one of another model: it lacks {name!r}")
        if name not in mine:
            raise GafError(f"{what} is one of another model: it has {name!r}, this one has not")
        there, here = (
            tuple(tensor.shape) if isinstance(tensor, Tensor) else None
            for tensor in (state[name], mine[name])
        )
        if there != here:
            raise GafError(
                f"{what} is one of another model: its {name!r} has shape {there}, not {here}"
            )
