"""Reading a file whole, with its checksum."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from gaf.lab.data.errors import DamagedFile

LARGEST = 1 << 28  # bytes; the largest file that is read whole, of CIFAR-100, has 154 million


def read(path: Path, largest: int = LARGEST) -> tuple[bytes, str]:
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
