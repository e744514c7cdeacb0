"""Unpickling that runs nothing from the file: numbers, text, lists, dictionaries and byte arrays, no more.

A pickle is a program; what it may call is what ``find_class`` hands out. Here those are stand-ins of our
own that only remember what the file says about an array: numpy itself is never called by the file.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from gaf.experiments.data.errors import DamagedFile


class _DType:
    """Stands for ``numpy.dtype``; only bytes are wanted."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment mean nothing to bytes."""


class _Array:
    """Stands for ``numpy.ndarray``, in the two ways numpy writes one."""

    def __init__(
        self, data: Any = b"", dtype: Any = None, shape: Any = (), order: Any = "C"
    ) -> None:
        self.data, self.dtype, self.shape, self.order = data, dtype, shape, order

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, in_columns, self.data = state
        self.order = "F" if in_columns else "C"

    def tensor(self) -> Tensor:
        """The array, uint8; raises what a wrong one raises."""
        if not isinstance(self.dtype, _DType) or self.dtype.code not in ("u1", "|u1"):
            raise pickle.UnpicklingError("an array is not of bytes")
        data, shape = self.data, tuple(self.shape)
        if isinstance(data, str):
            data = data.encode("latin1")
        if not all(isinstance(n, int) and n >= 0 for n in shape) or math.prod(shape) != len(data):
            raise pickle.UnpicklingError("an array is shorter or longer than its shape")
        flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else _EMPTY
        if self.order == "F":  # the transposed array in columns, as the authors of CIFAR-10 left it
            return flat.view(shape[::-1]).permute(*range(len(shape))[::-1]).contiguous()
        return flat.view(shape)


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("text in an encoding other than latin1")
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _Array,
    ("_codecs", "encode"): _encode,  # how Python 3 writes bytes for Python 2
}
for _module in ("numpy.core", "numpy._core"):  # its name before and since numpy 2
    _STAND_INS[f"{_module}.multiarray", "_reconstruct"] = _reconstruct
    _STAND_INS[f"{_module}.numeric", "_frombuffer"] = _Array


_EMPTY = torch.empty(0, dtype=torch.uint8)


class _Refused(Exception):
    """The pickle asks for something else; the message is its name."""


# The Python implementation: the one in C sizes its table by a number in the file, up to 64 GB.
_InPython: Any = vars(pickle)["_Unpickler"]


class _Unpickler(_InPython):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise _Refused(f"{module}.{name}") from None

    def load_build(self) -> None:
        if not isinstance(self.stack[-2], _DType | _Array):  # such as a stand-in itself
            raise _Refused("a change of something that is no array")
        super().load_build()

    # A key is hashed, and hashing deeply nested tuples would overflow the stack of the process.

    def load_setitem(self) -> None:
        self._check_keys(self.stack[-2:-1])
        super().load_setitem()

    def load_setitems(self) -> None:
        self._check_keys(self.stack[::2])
        super().load_setitems()

    def load_dict(self) -> None:
        self._check_keys(self.stack[::2])
        super().load_dict()

    def _check_keys(self, keys: list[Any]) -> None:
        if not all(isinstance(key, str | bytes | int) for key in keys):
            raise _Refused("a key that is neither text nor a number")

    def no_set(self) -> None:
        raise _Refused("a set")

    dispatch: ClassVar[dict[int, Any]] = {
        **_InPython.dispatch,
        pickle.BUILD[0]: load_build,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.DICT[0]: load_dict,
        pickle.EMPTY_SET[0]: no_set,
        pickle.ADDITEMS[0]: no_set,
        pickle.FROZENSET[0]: no_set,
    }

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused("an object outside the file")


def loads(content: bytes, path: Path) -> dict[str, Any]:
    """The dictionary in a pickle, its arrays as tensors; ``path`` is for messages."""
    try:
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(found, dict):
            raise pickle.UnpicklingError("no dictionary")
        return {_text(key): _plain(value) for key, value in found.items()}
    except _Refused as error:
        raise DamagedFile(
            f"{path} is refused: the pickle asks for {error}, and a dataset holds arrays, numbers "
            "and text only; nothing of it was run"
        ) from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise DamagedFile(
            f"{path} is not a readable pickle: {error or type(error).__name__}"
        ) from None


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    return value.tensor() if isinstance(value, _Array) else value
