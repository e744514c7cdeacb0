"""The machine's own names for itself."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def cpu_model() -> str:
    """The name the processor gives itself."""
    info = Path("/proc/cpuinfo")
    named = re.search("model name.*: (.*)", info.read_text("utf-8")) if info.exists() else None
    return named[1] if named else platform.processor() or platform.machine()
