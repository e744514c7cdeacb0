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
from typing import Any

import torch
from torch import Tensor

from gaf.common.unpickling import Refused, Unpickler
from gaf.lab.data.files import DamagedFile, reason


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
        # no product of sizes that the bytes do not bear out: of many large ones it would take minutes
        sound = len(shape) <= AXES and all(
            isinstance(n, int) and 0 <= n <= len(data) for n in shape
        )
        if not sound or math.prod(shape) != len(data):
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
AXES = 64  # of an array, as many as numpy has at most
INSTRUCTIONS = 1 << 20  # CIFAR-100's training pickle has about 300,000


class ArrayUnpickler(Unpickler):
    """Hands out stand-ins for numpy's arrays."""

    names = _STAND_INS

    def check_build(self, thing: Any, state: Any) -> None:
        if not isinstance(thing, _DType | _Array):  # such as a stand-in itself
            raise Refused("it changes something that is no array")


def loads(content: bytes, path: Path, *keys: str) -> list[Any]:
    """What a pickled dictionary holds under ``keys``, arrays as tensors, None where it lacks one.

    Args:
        content: of the file.
        path: for messages.
        *keys: what to take; anything else in the dictionary is left alone.
    """
    try:
        entries = ArrayUnpickler(
            io.BytesIO(content), len(content), INSTRUCTIONS, encoding="bytes"
        ).load()
        if not isinstance(entries, dict):
            raise pickle.UnpicklingError("no dictionary")
        values = [entries.get(key, entries.get(key.encode())) for key in keys]
        return [value.tensor() if isinstance(value, _Array) else value for value in values]
    except Refused as error:
        raise DamagedFile(
            f"{path} is refused: {error}, and the pickle of a dataset holds arrays, numbers and text only; "
            "nothing of it was run"
        ) from None
    except EOFError:
        raise DamagedFile(f"{path} is not a readable pickle: it ends too early") from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise DamagedFile(f"{path} is not a readable pickle: {reason(error)}") from None
