"""Does it help? Everything that needs more than torch: the extra ``[lab]``."""

from __future__ import annotations

import importlib
from typing import Any

# Imported when they are asked for: `import gaf.lab` stays light.
LAZY = {"compare": "gaf.lab.reports.comparison_view"}


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(LAZY[name]), name)
