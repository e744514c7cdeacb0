"""Random states: seeded once, saved with each checkpoint, and kept from whoever has no part in them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def mixed(*numbers: int) -> int:
    """One seed from several numbers, of 32 bits: torch's CPU generator reads no more of it."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def seed_all(seed: int, rank: int = 0) -> None:
    """Seed Python, NumPy and torch; each process draws numbers of its own."""
    own = mixed(seed, rank) if rank else seed
    random.seed(own)
    np.random.seed(own)  # noqa: NPY002 - the generator a user's task may draw from
    torch.manual_seed(own)


def states(device: torch.device) -> dict[str, Any]:
    """All states as plain values and tensors."""
    numpy: Any = np.random.get_state()  # noqa: NPY002
    name, keys, *rest = numpy
    found = {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(device)
    return found


def restore(found: dict[str, Any], device: torch.device) -> None:
    """Go on from saved states."""
    version, numbers, gauss = found["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, *rest = found["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(found["torch"])
    if device.type == "cuda" and "cuda" in found:
        torch.cuda.set_rng_state(found["cuda"], device)


@contextmanager
def untouched() -> Iterator[None]:
    """Leave torch's CPU state as it was: a DataLoader draws from it whenever it begins."""
    before = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(before)


@contextmanager
def own_settings(threads: int | None) -> Iterator[None]:
    """Random states and threads of a run; the caller's come back afterwards."""
    before, had = states(torch.device("cpu")), torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(had)
        restore(before, torch.device("cpu"))
