"""The metadata of a distributed checkpoint, read without running anything from the file.

torch writes it as a pickle, which is a program: what it may call is what ``find_class`` hands out. Here that
is the records that torch puts into it and the constructors of their parts, nothing else. A value of an
unexpected type is refused before it is hashed or printed: nested tuples in a small file would overflow the
stack of the process, or make a text of gigabytes.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import fields
from pathlib import PurePath
from typing import Any, ClassVar

import torch
from torch.distributed.checkpoint import metadata as records
from torch.distributed.checkpoint.filesystem import _StorageInfo

from gaf.common.unpickling import Refused, Unpickler

_RECORDS: tuple[type, ...] = (
    records.Metadata,
    records.MetadataIndex,
    records.ChunkStorageMetadata,
    records.TensorStorageMetadata,
    records.BytesStorageMetadata,
    records.TensorProperties,
    records.StorageMeta,
    _StorageInfo,
)
_ENCODING = records._MEM_FORMAT_ENCODING


def _encoding(value: Any) -> records._MEM_FORMAT_ENCODING:
    if type(value) is not int:
        raise Refused("a memory format that is no number")
    return _ENCODING(value)


def _layout(name: Any) -> torch.layout:
    if type(name) is not str or name != "torch.strided":
        raise Refused("a tensor that is not strided")
    return torch.strided


def _path(*parts: Any) -> str:
    """Stands for a path: where the checkpoint was written is a note, and nothing opens it."""
    if not all(type(part) is str for part in parts):
        raise Refused("a path that is no text")
    return str(PurePath(*parts))


_NAMES: dict[tuple[str, str], Any] = {
    **{
        ("torch", name): kind for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)
    },
    **{(kind.__module__, kind.__qualname__): kind for kind in _RECORDS},
    (_ENCODING.__module__, _ENCODING.__qualname__): _encoding,
    ("torch", "Size"): torch.Size,  # which takes integers only
    ("torch.serialization", "_get_layout"): _layout,
    **{
        (module, name): _path
        for module in ("pathlib", "pathlib._local")  # its name before and since Python 3.13
        for name in ("PosixPath", "WindowsPath")
    },
}


class MetadataUnpickler(Unpickler):
    """Hands out the records of a checkpoint's metadata and the parts they are made of."""

    names = _NAMES
    keys = "neither text nor an index"

    def check_build(self, thing: Any, state: Any) -> None:
        """Only a record of ours is filled, with values of its own fields."""
        if type(thing) not in _RECORDS:
            raise Refused("it changes something that is no record")
        if type(thing) is records.TensorProperties:
            kinds = (torch.dtype, torch.layout, bool, _ENCODING, bool)
            sound = type(state) is tuple and tuple(map(type, state)) == kinds
        else:
            known = {field.name for field in fields(thing)}
            sound = type(state) is dict and all(type(k) is str and k in known for k in state)
        if not sound:
            raise Refused(f"a {type(thing).__name__} with fields that it does not have")

    def load_build(self) -> None:
        super().load_build()
        if type(self.stack[-1]) is records.MetadataIndex:  # it may be a key already
            self.check_keys(self.stack[-1:])

    def may_be_key(self, key: Any) -> bool:
        if type(key) is records.MetadataIndex:
            return type(key.fqn) is str and type(key.offset) in (torch.Size, type(None))
        return type(key) is str

    dispatch: ClassVar[dict[int, Any]] = {**Unpickler.dispatch, pickle.BUILD[0]: load_build}


def loads(content: bytes) -> records.Metadata:
    """The metadata in a pickle; :class:`Refused` if it is anything else."""
    try:
        metadata = MetadataUnpickler(io.BytesIO(content), len(content)).load()
        _check(metadata)
    except Refused:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise Refused(f"it cannot be read ({str(error) or type(error).__name__})") from None
    return metadata


def _check(metadata: Any) -> None:
    """That the parts are of the types torch trusts them to be of."""
    if type(metadata) is not records.Metadata:
        raise Refused("it is no metadata")
    if type(metadata.storage_meta) not in (records.StorageMeta, type(None)):
        raise Refused("its note on where it was written is no record")
    for name, entry in metadata.state_dict_metadata.items():
        if type(name) is not str:
            raise Refused("an entry without a name")
        if type(entry) is records.TensorStorageMetadata:
            _check_tensor(entry)
        elif type(entry) is not records.BytesStorageMetadata:
            raise Refused("an entry is neither a tensor nor bytes")
    for part in metadata.storage_data.values():
        if type(part) is not _StorageInfo or part.transform_descriptors:
            raise Refused("a part is stored in a way that is not known here")
        name = part.relative_path
        if type(name) is not str:
            raise Refused("a part does not say which file it lies in")
        if PurePath(name).name != name or "\\" in name:
            raise Refused(f"it points to {name!r}, outside the checkpoint")
        if not all(type(n) is int and n >= 0 for n in (part.offset, part.length)):
            raise Refused("a part does not say where it lies in its file")


def _check_tensor(tensor: records.TensorStorageMetadata) -> None:
    chunks = tensor.chunks
    sound = type(chunks) is list and all(
        type(chunk) is records.ChunkStorageMetadata for chunk in chunks
    )
    if not sound or type(tensor.properties) is not records.TensorProperties:
        raise Refused("a tensor without a list of its chunks")
    sizes = [tensor.size, *(n for chunk in chunks for n in (chunk.offsets, chunk.sizes))]
    if not all(type(n) is torch.Size for n in sizes):
        raise Refused("a size that is no size")
