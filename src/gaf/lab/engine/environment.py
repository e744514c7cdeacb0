"""Where, with what and on which data a run was made. Not who: no host name, no user name."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import gaf

if TYPE_CHECKING:
    from gaf.lab.engine.fabric import Fabric

PACKAGES = ("torch", "lightning-fabric", "numpy", "pydantic", "pillow", "scikit-learn")


def facts(fabric: Fabric, data: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that is not in the config but may explain a difference."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "command": sys.argv,
        "versions": versions(),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "device": device_name(fabric.device),
        "processes": fabric.world_size,
        "threads": torch.get_num_threads(),
        "git": git_revision(Path.cwd()),
        "data": data,
        "time": {"began": now.isoformat(timespec="seconds")},
    }


def versions() -> dict[str, str]:
    """Of Python, gaf and what trainings depend on."""
    found = {"python": platform.python_version(), "gaf": gaf.__version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def device_name(device: torch.device) -> str:
    """What a run computes on."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


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
