"""Files that appear whole or not at all, also when the power goes; JSON and checksums, read with care."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gaf.common.errors import GafError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a write says where there is no room
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)  # a file system that has none
LOCK = ".lock"  # in a folder that one process at a time writes to
LARGEST = 16 << 20  # bytes of a JSON file of ours: a comparison of 20,000 runs takes 5 million
LONGEST = 1 << 17  # characters of a text in one: what an argument of a command can have on Linux


class DiskFull(OSError):
    """There was no room for a record or a checkpoint; the checkpoints before are whole."""


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last; where folders cannot be opened, the system does so by itself."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(folder: Path, refusal: GafError) -> Iterator[None]:
    """Have a folder to oneself; the lock goes with the process. Raises ``refusal`` where another has it."""
    from filelock import FileLock, Timeout  # torch brings it

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise refusal from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    try:
        yield
    finally:
        lock.release()


def read_whole(path: Path, largest: int = LARGEST) -> bytes:
    """The content of a file of ours; GafError where it cannot be read, or is larger than any that is ours."""
    try:
        if path.stat().st_size > largest:
            raise GafError(f"{path} is larger than {largest >> 20} MB: gaf has not written it")
        return path.read_bytes()
    except OSError as error:
        raise GafError(f"{path} cannot be read: {error.strerror}") from None


def check_texts(value: Any) -> None:
    """Refuse a tree with a text, as key or value, that would fill a page or a terminal by itself."""
    if isinstance(value, dict):
        check_texts([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for entry in value:
            check_texts(entry)
    elif isinstance(value, str) and len(value) > LONGEST:
        raise GafError(f"a text of {len(value):,} characters is longer than {LONGEST:,}")


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """The object in a file of ours; GafError with a sentence where it, or one of its keys, is gone."""
    content = read_whole(path)
    try:
        values = json.loads(content)
        check_texts(values)
    except (ValueError, RecursionError) as error:
        raise GafError(f"{path} is damaged: {error}") from None
    if not isinstance(values, dict) or not values.keys() >= set(keys):
        raise GafError(f"{path} is damaged: it should hold {', '.join(keys) or 'an object'}")
    return values


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a name of this process, make it last, and rename it.

    Of two processes that write it at once, each writes all of it, and one of the two stays.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_json(path: Path, content: Any) -> None:
    """Write JSON whole; inf and NaN as strings, which :func:`number` reads back."""
    text = json.dumps(plain(content), indent=2, allow_nan=False)
    write_whole(path, (text + "\n").encode())


def plain(value: Any) -> Any:
    """The value as JSON can hold it.

    Example:
        >>> plain({"loss": float("inf"), "shape": (3, 32)})
        {'loss': 'inf', 'shape': [3, 32]}
    """
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def number(value: Any) -> Any:
    """A figure as :func:`plain` wrote it."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def sha256(path: Path) -> str:
    """The checksum of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class Hashing:
    """A file to write to that knows the checksum and length of what it was given.

    An error (a full disk) is kept until :meth:`close`: whoever writes may be native code that cannot
    pass it on.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 - closed in close()
        self._hash = hashlib.sha256()
        self._error: OSError | None = None
        self.length = 0

    def write(self, data: Any) -> int:
        data = memoryview(data).cast("B")
        if self._error is None:
            try:
                self._file.write(data)
            except OSError as error:
                self._error = error
        self._hash.update(data)
        self.length += len(data)
        return len(data)

    def flush(self) -> None:
        """The end of the file is what counts: see :meth:`close`."""

    def close(self) -> str:
        """Make the file last; returns its checksum, or raises what went wrong on the way."""
        try:
            if self._error is not None:
                raise self._error
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            try:
                self._file.close()
            except OSError as error:  # the buffer that could not be written, again
                self._error = self._error or error
        if self._error is not None:
            raise self._error
        return self._hash.hexdigest()
