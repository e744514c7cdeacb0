"""Files of ``torch.save`` from anywhere: tensors and plain values, nothing is run, little is allocated.

``torch.load(weights_only=True)`` runs no code, but a file of a few hundred bytes can have it allocate any
amount: a storage, a tensor or a bytearray of a length that the file does not hold. So the pickle in the file
is read once before, with stand-ins for everything that it calls.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import warnings
import zipfile
from _compat_pickle import IMPORT_MAPPING
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, ClassVar

import torch

from gaf.common.unpickling import Refused, Unpickler

ZIP = b"PK\x03\x04"
LEGACY = 0x1950A86A20F9469CFC6C  # the first number in a file of torch before 1.6
# What weights_only lets a file call, and what takes as much memory as an argument says.
SIZED = re.compile(
    r"torch\.([\w.]+\.)?(\w*Tensor|\w*Storage|_rebuild_qtensor|_rebuild_wrapper_subclass)"
)
VIEWS = tuple(
    f"torch._utils._rebuild_tensor{version}" for version in ("", "_v2", "_v3")
)  # of a storage
ITEMSIZES = {  # bytes of a number
    **{f"{kind}Storage": 1 for kind in ("Untyped", "Byte", "Char", "Bool")},
    **{f"{kind}Storage": 2 for kind in ("Half", "BFloat16", "Short")},
    **{f"{kind}Storage": 4 for kind in ("Float", "Int")},
    **{f"{kind}Storage": 8 for kind in ("Double", "Long", "ComplexFloat")},
    "ComplexDoubleStorage": 16,
}
HASHED = ("collections.OrderedDict", "collections.Counter", "builtins.set")


def load(file: Path | IO[bytes]) -> Any:
    """What ``torch.save`` wrote, on the CPU.

    Raises:
        Refused: a sentence, which names no file.
        OSError: the file cannot be opened.
    """
    with file.open("rb") if isinstance(file, Path) else nullcontext(file) as stream:
        check(stream)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the pickle's version
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # torch would advise to run it
        name = re.search(r"GLOBAL ([\w.]+)", str(error))
        reason = f"it asks for {name[1]}" if name else "it holds more than tensors and plain values"
        raise Refused(reason) from None
    except Exception as error:  # a damaged file can fail in any way
        raise Refused(f"it is damaged ({_line(error)})") from None


def check(stream: IO[bytes]) -> None:
    """Refuse a file from which torch would allocate more than the file holds; leaves it at its beginning."""
    stream.seek(0, os.SEEK_END)
    size = stream.tell()
    stream.seek(0)
    beginning = stream.read(len(ZIP))
    stream.seek(0)
    try:
        if beginning == ZIP:
            _check_zip(stream, size)
        else:
            _check_legacy(_Bounded(stream, size), size)
    except Refused:
        raise
    except EOFError:
        raise Refused("it is damaged (it ends too early)") from None
    except Exception as error:
        raise Refused(f"it is damaged ({_line(error)})") from None
    stream.seek(0)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _check_zip(stream: IO[bytes], size: int) -> None:
    with zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
        if len({entry.filename.lower() for entry in entries}) < len(entries):
            raise Refused("two parts of it have one name")  # torch does not look at the case
        packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
        if packed or sum(entry.file_size for entry in entries) > size:
            raise Refused("it unpacks to more than it holds")
        folder = entries[0].filename.partition("/")[0]
        content = archive.read(f"{folder}/data.pkl")
        sizes = {entry.filename: entry.file_size for entry in entries}
    _Check(io.BytesIO(content), len(content), sizes, f"{folder}/data/").load()


def _check_legacy(stream: _Bounded, size: int) -> None:
    """Number, version, machine, the content, the keys of its storages; the storages follow."""
    if _Check(stream, size).load() != LEGACY:
        raise Refused("it is no file of torch.save")
    pickles = [_Check(stream, size) for _ in range(4)]
    *_, keys = [reader.load() for reader in pickles]
    pickles[-1].check_keys(keys)
    if sum(sum(reader.storages.values()) for reader in pickles) > size:
        raise Refused("it speaks of more bytes than it holds")


class _Bounded:
    """A stream that makes no room for more than is left: a buffered file makes it for what it is asked."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self.stream, self.size, self.readline = stream, size, stream.readline

    def read(self, length: int) -> bytes:
        return self.stream.read(min(length, self.size - self.stream.tell()))


class _Inert:
    """Stands for a name in the file, for what a call of it gives, or for a storage.

    Args:
        name: with its module; none where it is the result of a call.
        length: bytes of a storage.
        itemsize: bytes of a number in it.
    """

    def __init__(self, name: str = "", length: int = 0, itemsize: int = 1) -> None:
        self.name, self.length, self.itemsize = name, length, itemsize

    def __setitem__(self, key: Any, value: Any) -> None:
        """The keys have been looked at."""


class _Check(Unpickler):
    """Reads a pickle of torch for the memory that it would take; what it may call, torch decides.

    Args:
        stream: the pickle.
        size: bytes that it has at most.
        parts: sizes of the parts of the file; unset: it has none.
        prefix: of the names of those with storages.
    """

    keys = "neither text nor numbers"

    def __init__(
        self, stream: Any, size: int, parts: dict[str, int] | None = None, prefix: str = ""
    ) -> None:
        super().__init__(stream, size, encoding="bytes")
        self.parts, self.prefix = parts, prefix
        self.storages: dict[str, int] = {}  # name -> bytes

    def find_class(self, module: str, name: str) -> Any:
        return _Inert(f"{IMPORT_MAPPING.get(module, module)}.{name}")

    def may_be_key(self, key: Any) -> bool:
        plain = (str, bytes, int, float, type(None), _Inert)
        flat = type(key) is tuple and all(isinstance(part, plain) for part in key)
        return flat or isinstance(key, plain)

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, _, count, *_ = pid
        itemsize = ITEMSIZES[_last(kind.name)]
        name = key.decode("ascii") if isinstance(key, bytes) else key
        if type(count) is not int or count < 0 or type(name) is not str:
            raise Refused("a storage without name or length")
        length = self.storages[name] = count * itemsize
        if self.parts is not None and length > self.parts.get(f"{self.prefix}{name}", -1):
            raise Refused("it speaks of more bytes than it holds")
        return _Inert("", length, itemsize)

    def load_reduce(self) -> None:
        function, arguments = self.stack[-2:]
        self.spend(arguments)
        self._check_call(function.name, arguments)
        self.stack[-2:] = [b"" if function.name == "_codecs.encode" else _Inert()]

    def _check_call(self, name: str, arguments: tuple[Any, ...]) -> None:
        if SIZED.fullmatch(name):
            raise Refused(f"it makes a {name} of any size")
        if name == "builtins.bytearray" and arguments and not isinstance(arguments[0], str | bytes):
            raise Refused("it makes a bytearray of any size")
        if name in HASHED and arguments:
            for entry in arguments[0]:
                self.check_keys(entry[:1] if type(entry) is list else [entry])
        if name in VIEWS:
            storage, offset, size, stride, *rest = arguments
            itemsize = (
                getattr(torch, _last(rest[2].name)).itemsize
                if name == VIEWS[-1]
                else storage.itemsize
            )
            _check_view(storage, offset, size, stride, itemsize)
        if name == "torch._tensor._rebuild_from_type_v2":
            function, _, rest, *_ = arguments
            self._check_call(function.name, rest)

    def load_newobj(self) -> None:
        kind, arguments = self.stack[-2:]
        if arguments != () or SIZED.fullmatch(kind.name):  # which BUILD could fill
            raise Refused("it makes an object in a way that no such file does")
        self.stack[-2:] = [_Inert()]

    def load_build(self) -> None:
        """What it is filled with has been looked at."""
        self.stack.pop()

    dispatch: ClassVar[dict[int, Any]] = {
        **Unpickler.dispatch,
        pickle.REDUCE[0]: load_reduce,
        pickle.NEWOBJ[0]: load_newobj,
        pickle.BUILD[0]: load_build,
        pickle.EMPTY_SET[0]: Unpickler.dispatch[pickle.EMPTY_LIST[0]],  # torch lets nothing into it
    }


def _check_view(storage: Any, offset: Any, size: Any, stride: Any, itemsize: int) -> None:
    """That a tensor lies within its storage, which torch would make longer."""
    if any(type(n) is not int or n < 0 for n in (offset, *size, *stride)):
        raise Refused("a tensor whose shape is no shape")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 not in size and (last + 1) * itemsize > storage.length:
        raise Refused("a tensor is larger than its storage")
