"""Directions among a model's weights: random ones on the scale of its filters, or to another state of it.

A direction names the tensors it moves; all others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError

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
    found: Direction = {}
    for name, weight in model.named_parameters():
        if not weight.is_floating_point() or (weight.ndim < 2 and not biases_and_norms):
            continue
        w = weight.detach().double().cpu()
        d = torch.randn(w.shape, generator=generator, dtype=torch.float64)
        axes = tuple(range(1, w.ndim)) if w.ndim > 1 else tuple(range(w.ndim))
        norm = torch.linalg.vector_norm
        scale = norm(w, dim=axes, keepdim=True) / norm(d, dim=axes, keepdim=True).clamp(min=1e-30)
        found[name] = (d * scale).to(weight)
    if not found:
        raise GafError(
            f"{type(model).__name__} has no weights of two axes or more; move its biases and norms too"
        )
    return found


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
            tuple(each.shape) if isinstance(each, Tensor) else None
            for each in (state[name], mine[name])
        )
        if there != here:
            raise GafError(
                f"{what} is one of another model: its {name!r} has shape {there}, not {here}"
            )
