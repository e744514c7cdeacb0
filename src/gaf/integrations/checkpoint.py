"""Distributed checkpoints: each process writes what it holds, any number of processes reads it.

The files are those of ``torch.distributed.checkpoint``. torch would run pickles that it finds in them;
:class:`SafeReader` and :class:`SafePlanner` accept tensors and plain values only.
"""

from __future__ import annotations

import io
import os
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import ReadItem
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.utils import _ReaderView

from gaf.common import tensor_files
from gaf.common.errors import GafError
from gaf.integrations.metadata import Refused, loads

METADATA = ".metadata"  # written last, so that a folder with it is whole


class SafeReader(dcp.FileSystemReader):
    """torch's reader of a folder, but its metadata runs nothing; for ``dcp.load(storage_reader=...)``."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        path = Path(self._get_metadata_path(kwargs.get("rank")))
        try:
            metadata = loads(path.read_bytes())
        except FileNotFoundError:
            raise Refused(
                f"{path.parent} holds no finished checkpoint: {path.name} is missing"
            ) from None
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror}") from None
        except Refused as error:
            raise Refused(f"{path} is refused: {error}; nothing of it was run") from None
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def _slice_file(self, file: Any, sinfo: _StorageInfo) -> Any:
        name = Path(file.name).name
        if sinfo.offset + sinfo.length > os.fstat(file.fileno()).st_size:
            raise Refused(f"{name} in the checkpoint is shorter than its metadata says")
        part = _Slice(file, sinfo.offset, sinfo.length)
        try:
            tensor_files.check(part)  # type: ignore[arg-type]
        except Refused as error:
            raise Refused(f"{name} in the checkpoint is refused: {error}") from None
        return part


class _Slice(_ReaderView):
    """torch's view of a part of a file, in which a place can be counted from the end."""

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_END:
            offset, whence = self.len + offset, os.SEEK_SET
        return super().seek(offset, whence)


class SafePlanner(DefaultLoadPlanner):
    """torch's planner, but what is no tensor is read as plain values; for ``dcp.load(planner=...)``."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        try:
            plain = tensor_files.load(value)
        except Refused as error:
            name = read_item.dest_index.fqn
            raise Refused(f"{name} in the checkpoint is no plain value: {error}") from None
        again = io.BytesIO()
        torch.save(plain, again)
        again.seek(0)
        super().load_bytes(read_item, again)


def save(
    folder: str | os.PathLike[str], model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Save a model and its optimizer, sharded or not; all processes call this.

    Args:
        folder: seen by all processes; it must not hold a checkpoint already.
        model: plain, or under DDP, FSDP2 or tensor parallelism.
        optimizer: one of ours or any other, activated or not.
    """
    folder = Path(folder)
    if (folder / METADATA).exists():
        raise GafError(f"{folder} holds a checkpoint already: save each to a folder of its own")
    untouched = not optimizer.state
    state = _state(model, optimizer)
    if untouched:  # torch has taken a step of length 0, which Adam counts and momentum remembers
        optimizer.state.clear()
        state["optimizer"]["state"] = {}
    with _without_a_warning_about_one_process():
        dcp.save(state, checkpoint_id=folder)


def load(
    folder: str | os.PathLike[str], model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Load what :func:`save` wrote into a new model and optimizer, on any number of processes.

    A parameter without optimizer state in the checkpoint (frozen or unused until then) has none after it.

    Raises:
        GafError: the folder holds no finished checkpoint, one that is damaged or of another model or
            optimizer, or one with more than tensors and plain values.
    """
    reader = SafeReader(folder)
    metadata = reader.read_metadata()  # torch would wrap the reason for a refusal into others
    with _room_for_all_state(optimizer):
        state = _state(model, optimizer)
    _empty_what_was_not_saved(state, metadata)
    try:
        with _without_a_warning_about_one_process():
            dcp.load(state, storage_reader=reader, planner=SafePlanner())
    except CheckpointException as error:
        failures = [failure for failure, _ in error.failures.values()]
        if not all(isinstance(failure, Exception) for failure in failures):  # such as Ctrl-C
            raise
        reason = next(
            (failure for failure in failures if isinstance(failure, Refused)), failures[0]
        )
        words = " ".join(str(reason).split()) or type(reason).__name__
        raise Refused(f"the checkpoint in {folder} cannot be loaded: {words}") from None
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    weights, rest = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": rest}


@contextmanager
def _room_for_all_state(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Have torch make the tensors to load into, by a step of length 0.

    It does so where it finds neither state nor gradients. The gradients come back untouched.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if all(optimizer.state.get(p) for p in parameters if p.requires_grad):
        yield
        return
    optimizer.state.clear()
    gradients = [p.grad for p in parameters]
    for p in parameters:
        p.grad = None
    try:
        yield
    finally:
        for p, grad in zip(parameters, gradients, strict=True):
            p.grad = grad


def _empty_what_was_not_saved(state: dict[str, Any], metadata: Metadata) -> None:
    """Expect no state of a parameter that had none; one that had another kind is torch's to refuse."""
    saved = sorted(metadata.state_dict_metadata)
    states = state["optimizer"]["state"]
    for name in states:
        prefix = f"optimizer.state.{name}."
        first = bisect_left(saved, prefix)
        if first == len(saved) or not saved[first].startswith(prefix):
            states[name] = {}


@contextmanager
def _without_a_warning_about_one_process() -> Iterator[None]:
    """One process is what it looks like; torch would ask whether it was meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable")
        yield
