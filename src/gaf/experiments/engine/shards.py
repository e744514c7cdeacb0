"""Sharded tensors in checkpoints: each process writes what it holds, a reader puts it together.

A state is a tree of dicts and lists with tensors at its leaves. Before saving, each DTensor is replaced by a
note of its name and shape, and what this process holds of it goes into a dict of pieces. There is no
metadata beside that: a checkpoint is plain tensors, numbers and strings, read with ``weights_only=True``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from gaf.errors import GafError

NOTE = "gaf_sharded"

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
        return _whole(tree[NOTE], tree["shape"], [each for each in parts if tree[NOTE] in each])
    if isinstance(tree, dict):
        return {key: put_together(each, parts) for key, each in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(put_together(each, parts) for each in tree)
    return tree


def _whole(path: str, shape: list[int], parts: list[Pieces]) -> Tensor:
    values = [part[path]["values"] for part in parts]
    if sum(each.numel() for each in values) != torch.Size(shape).numel():
        raise GafError(f"pieces of {path} are missing")
    whole = torch.empty(shape, dtype=values[0].dtype)
    for part, piece in zip(parts, values, strict=True):
        if piece.numel():  # a process may hold nothing of a small tensor
            where = zip(part[path]["offset"], piece.shape, strict=True)
            whole[tuple(slice(start, start + length) for start, length in where)] = piece
    return whole


def load_model(model: nn.Module, state: dict[str, Any]) -> None:
    """Load whole tensors into a model, sharded or not."""
    own = model.state_dict()
    model.load_state_dict({key: _like(own.get(key), value) for key, value in state.items()})


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load whole tensors into an optimizer; state of a parameter's shape is sharded as the parameter is."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
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
