"""A checkpoint as people name it: by the folder of its run, whose newest one counts, or by its own."""

from __future__ import annotations

from pathlib import Path

from gaf.common.errors import GafError
from gaf.lab.engine import checkpoint
from gaf.lab.engine.folder import read_config
from gaf.lab.engine.state import CHECKPOINTS


def run_folder(place: Path) -> Path:
    """The folder of the run."""
    if not place.is_dir():
        raise GafError(f"there is no folder {place}, so it holds no run")
    # absolute: named from beside it, a checkpoint has no parents
    return place.absolute().parent.parent if checkpoint.NAME.fullmatch(place.name) else place


def find(place: Path) -> tuple[Path, Path]:
    """The folder of the run, and the checkpoint, which is whole."""
    run = run_folder(place)
    if run != place:
        checkpoint.verify(place)
        return run, place
    latest = checkpoint.latest(run / CHECKPOINTS)
    if latest is None:
        read_config(run)  # it says if there is no run at all
        raise GafError(f"the run in {run} has no checkpoint yet: train it first")
    return run, latest
