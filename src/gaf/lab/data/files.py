"""Files of datasets, which may come from anywhere: what can be wrong with them, read whole, unpacked.

A tar archive may be hostile: files and folders inside one folder are unpacked, and nothing else. Each file is
written here, rather than by ``tarfile.extract``: no owner, no mode, no link.
"""

from __future__ import annotations

import hashlib
import shutil
import stat
import tarfile
from pathlib import Path, PurePosixPath, PureWindowsPath

from gaf.common.errors import GafError


class DataError(GafError):
    """Data that cannot be used; the message is a sentence that says what to do."""


class DatasetMissing(DataError):
    """A dataset that is not on this machine; the message holds the command that gets it."""


class DamagedFile(DataError):
    """A file that is not what its name promises."""


def reason(error: BaseException | str) -> str:
    """Why something failed, in words, without the system's number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


LARGEST = 1 << 28  # bytes; the largest file that is read whole, of CIFAR-100, has 154 million


def read_file(path: Path, largest: int = LARGEST) -> tuple[bytes, str]:
    """The bytes of a file and their sha256; a file of more than ``largest`` bytes is refused unread."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise DamagedFile(f"{path} cannot be read: it is no file")  # a device may never end
        if about.st_size > largest:
            raise DamagedFile(f"{path} is refused: such a file has at most {largest} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror}") from None
    return content, hashlib.sha256(content).hexdigest()


BLOCK = 1 << 20
LONGEST = 1000  # characters of a path
NAMES = 1 << 16  # bytes of a long name, or of the notes on an entry
ENTRY = 1024  # bytes that an entry counts for: a million empty files are a bomb too


class _Entry(tarfile.TarInfo):
    """An entry; a long name is one of its own, which tarfile reads whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Entry:
        entry = super().frombuf(buf, encoding, errors)
        if entry.size > NAMES and entry.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE):
            raise tarfile.ReadError("a name or note in it is longer than any")
        return entry


def extract(archive: Path, into: Path, *, limit: int) -> None:
    """Unpack ``archive`` into the folder ``into``, at most ``limit`` bytes; raises at the first odd entry.

    What was unpacked until then stays: give it a folder of its own, and remove that on an error.
    """
    left = limit
    try:
        with tarfile.open(archive, tarinfo=_Entry) as tar:
            for member in tar:
                target = into / _relative(member, archive)
                left -= ENTRY + member.size
                if left < 0 or member.size < 0:
                    raise DamagedFile(
                        f"{archive} is refused: it unpacks to more than {limit} bytes"
                    )
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None  # it is a regular file
                with target.open("wb") as file:  # of member.size bytes, or a ReadError
                    shutil.copyfileobj(content, file, BLOCK)
    except Exception as error:  # tarfile and the decompressors fail in many ways on odd headers
        if isinstance(error, DamagedFile) or (isinstance(error, OSError) and error.errno):
            raise  # a sentence of ours, or one of the system about a disk that is full
        reason = " ".join(str(error).split())
        raise DamagedFile(f"{archive} is no archive or a damaged one: {reason}") from None


def _relative(member: tarfile.TarInfo, archive: Path) -> PurePosixPath:
    """The path of an entry inside the folder; an entry that is or leads anywhere else is refused."""
    name = member.name
    if len(name) > LONGEST:
        raise DamagedFile(f"{archive} is refused: a path in it has {len(name)} characters")
    path, windows = PurePosixPath(name), PureWindowsPath(name)
    leads_out = ".." in (*path.parts, *windows.parts) or path.is_absolute() or windows.anchor
    if leads_out or "\0" in name or not name:
        raise DamagedFile(f"{archive} is refused: the path {name!r} in it leads out of its folder")
    if not (member.isreg() or member.isdir()):
        kind = "a link" if member.islnk() or member.issym() else "a device"
        raise DamagedFile(f"{archive} is refused: {name!r} in it is {kind}, not a file")
    return path
