"""Reading a file whole, with its checksum."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gaf.experiments.data.errors import DamagedFile


def read(path: Path, largest: int | None = None) -> tuple[bytes, str]:
    """The bytes of a file and their sha256; a file of more than ``largest`` bytes is refused unread."""
    try:
        if largest is not None and path.stat().st_size > largest:
            raise DamagedFile(f"{path} is refused: such a file has at most {largest} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror}") from None
    return content, hashlib.sha256(content).hexdigest()
