"""Lightning Fabric, in half the time.

Where torchmetrics is installed, Fabric imports all of it, to ask for a version that only its spike detection
needs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """Have a package that was not imported yet look as if it were not installed."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


with _absent("torchmetrics"):
    from lightning_fabric import Fabric
    from lightning_fabric.plugins import MixedPrecision
    from lightning_fabric.plugins.environments import TorchElasticEnvironment
    from lightning_fabric.strategies import DDPStrategy, ModelParallelStrategy

__all__ = [
    "DDPStrategy",
    "Fabric",
    "MixedPrecision",
    "ModelParallelStrategy",
    "TorchElasticEnvironment",
]
