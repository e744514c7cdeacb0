"""What the machine and the folder say of themselves."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path


def cpu_model() -> str:
    """The name the processor gives itself."""
    info = Path("/proc/cpuinfo")
    named = re.search("model name.*: (.*)", info.read_text("utf-8")) if info.exists() else None
    return named[1] if named else platform.processor() or platform.machine()


def git_revision(folder: Path) -> str | None:
    """The commit of the project in a folder, with ``+`` where files have changed since; None without git."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+" if changed else commit


def _git(folder: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=folder, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
