"""Reading a file whole, with its checksum."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gaf.experiments.data.errors import DamagedFile


def read(path: Path) -> tuple[bytes, str]:
    """The bytes of a file and their sha256."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror}") from None
    return content, hashlib.sha256(content).hexdigest()
