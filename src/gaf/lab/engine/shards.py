"""Sharded tensors in checkpoints: each process writes what it holds, a reader puts it together.

A state is a tree of dicts and lists with tensors at its leaves. Before saving, each DTensor is replaced by a
note of its name and shape, and what this process holds of it goes into a dict of pieces. There is no
metadata beside that: a checkpoint is plain tensors, numbers and strings, read with ``weights_only=True``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from gaf.common.errors import GafError
from gaf.lab.landscape.slices import check_state

NOTE = "gaf_sharded"
AXES = 64  # of a tensor, more than any has
# What torch's rules keep of each number of a parameter.
LIKE_PARAMETERS = {"momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}

Pieces = dict[str, dict[str, Any]]


def take_apart(tree: Any, pieces: Pieces, path: str = "") -> Any:
    """The tree with a note for each DTensor; what this process holds of it is added to ``pieces``."""
    if isinstance(tree, dict):
        return {key: take_apart(each, pieces, f"{path}/{key}") for key, each in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(take_apart(each, pieces, f"{path}/{i}") for i, each in enumerate(tree))
    if not isinstance(tree, DTensor):
        return tree
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(tree.shape, tree.device_mesh, tree.placements)
    pieces[path] = {"offset": list(offset), "values": tree.to_local().detach()}
    return {NOTE: path, "shape": list(tree.shape)}


def put_together(tree: Any, parts: list[Pieces]) -> Any:
    """The tree with whole tensors again; GafError where a piece is missing."""
    if isinstance(tree, dict) and NOTE in tree:
        return _whole(tree[NOTE], tree.get("shape"), parts)
    if isinstance(tree, dict):
        return {key: put_together(each, parts) for key, each in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(put_together(each, parts) for each in tree)
    if isinstance(tree, Tensor):
        _check_size(tree)
    return tree


def _check_size(values: Tensor) -> None:
    """A view can repeat what a file holds of a tensor any number of times; none is saved as one."""
    if values.numel() * values.itemsize > values.untyped_storage().nbytes():
        raise GafError(f"a tensor of {values.numel()} numbers has not as many in the file")


def _whole(path: Any, shape: Any, parts: list[Pieces]) -> Tensor:
    sound = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not isinstance(path, str) or not sound or len(shape) > AXES:
        raise GafError("a tensor in pieces has no name or no shape")
    pieces = [_piece(part[path], shape) for part in parts if path in part]
    # What the pieces hold bounds what is allocated.
    if not pieces or sum(values.numel() for _, values in pieces) != math.prod(shape):
        raise GafError(f"pieces of {path} are missing")
    whole = torch.empty(shape, dtype=pieces[0][1].dtype)
    for where, values in pieces:
        if values.numel():  # a process may hold nothing of a small tensor
            whole[where] = values
    return whole


def _piece(piece: Any, shape: list[int]) -> tuple[tuple[slice, ...], Tensor]:
    """Where a piece lies in the whole tensor, and its values."""
    entries = piece if isinstance(piece, dict) else {}
    offset, values = entries.get("offset"), entries.get("values")
    if not isinstance(values, Tensor) or not isinstance(offset, list):
        raise GafError("a piece of a tensor is not what was written")
    _check_size(values)
    sizes = list(zip(offset, values.shape, shape, strict=False))
    if not len(sizes) == len(offset) == len(shape) == values.ndim or not all(
        type(start) is int and 0 <= start <= end - length for start, length, end in sizes
    ):
        raise GafError("a piece of a tensor lies outside of it")
    return tuple(slice(start, start + length) for start, length, _ in sizes), values


def load_model(model: nn.Module, state: dict[str, Any]) -> None:
    """Load whole tensors into a model, sharded or not."""
    check_state(model, state, "the checkpoint")
    own = model.state_dict()
    model.load_state_dict({key: _like(own.get(key), value) for key, value in state.items()})


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load whole tensors into an optimizer; state of a parameter's shape is sharded as the parameter is."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for i, entries in state["state"].items():
        for key in LIKE_PARAMETERS & entries.keys():
            if _shape(entries[key]) != params[i].shape:
                raise GafError(
                    f"the checkpoint is one of another optimizer: its {key!r} of parameter {i} does not fit"
                )
    for own, saved in zip(optimizer.param_groups, state["param_groups"], strict=False):
        for key in own.keys() & saved.keys():
            if isinstance(own[key], int | float) and not isinstance(saved[key], int | float):
                raise GafError(
                    f"the checkpoint is one of another optimizer: its {key!r} is no number"
                )
    sharded = {
        i: {
            key: _like(params[i], value) if _shape(value) == params[i].shape else value
            for key, value in entries.items()
        }
        for i, entries in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": sharded})


def _shape(value: Any) -> torch.Size | None:
    return value.shape if isinstance(value, Tensor) else None


def _like(own: Any, value: Any) -> Any:
    if not isinstance(own, DTensor) or not isinstance(value, Tensor):
        return value
    # Every process has read the whole tensor: each keeps its part, and nothing is sent.
    value = value.to(own.device)
    return distribute_tensor(value, own.device_mesh, own.placements, src_data_rank=None)
