"""Checkpoints: renamed into place when whole, the last two kept, read without running code.

One that is damaged is set aside, and removed when the next one has been written.

A checkpoint is a folder ``step-00001234`` with one ``part-R.pt`` for each process and a ``manifest.json``
with the checksum of each part. The run folder must be seen by all processes. People name a checkpoint by
its folder, or by that of its run, whose newest one counts.

A state is a tree of dicts and lists with tensors at its leaves. Before saving, a sharded tensor is replaced
by a note of its name and shape, and what this process holds of it goes into a dict of pieces. There is no
metadata beside that: a checkpoint is plain tensors, numbers and strings, read with ``weights_only=True``.
torch's own format (:mod:`gaf.integrations.checkpoint`) has no checksums, by which a damaged file is known
before a run goes on from it. Both read files through :mod:`gaf.common.tensor_files`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from gaf.common import files, tensor_files
from gaf.common.errors import GafError
from gaf.lab.engine.distributed import Fabric, everyones
from gaf.lab.engine.folder import read_config

CHECKPOINTS = "checkpoints"  # the folder of a run's
KEPT = 2
FORMAT = 1
MANIFEST = "manifest.json"
ASIDE = "damaged-"  # before the name of a checkpoint that is
FIRST = "part-0"  # it holds what is the same on all processes
NAME = re.compile(r"step-(\d{8,})")
NOTE = "gaf_sharded"  # stands for a tensor in pieces
AXES = 64  # of a tensor, more than any has

Pieces = dict[str, dict[str, Any]]


class Damaged(GafError):
    """A checkpoint that is not what was written."""


def save(
    fabric: Fabric, folder: Path, step: int, state: dict[str, Any], own: dict[str, Any]
) -> None:
    """Write a checkpoint, or raise OSError and leave the ones before as they are.

    Args:
        fabric: whose processes all call this.
        folder: holds the run's checkpoints.
        step: the number of steps done.
        state: the same on all processes, sharded tensors aside.
        own: what each process has for itself.
    """
    final = folder / f"step-{step:08d}"
    unfinished = folder / f".{final.name}.tmp"
    if fabric.is_global_zero:
        _remove(folder.glob(".step-*.tmp"))  # of a run that was killed
        unfinished.mkdir(parents=True)
    fabric.barrier()
    pieces: dict[str, Any] = {}
    noted = take_apart(state, pieces)
    part = {"own": own, "pieces": pieces, "state": noted if fabric.is_global_zero else None}
    name = f"part-{fabric.global_rank}.pt"
    try:
        about: Any = _write_part(unfinished / name, part)
    except OSError as error:
        about = error
    everyone = everyones(fabric, about)
    failed: Any = next((answer for answer in everyone if isinstance(answer, OSError)), None)
    if fabric.is_global_zero:
        try:
            if failed is None:
                _finish(unfinished, final, step, everyone)
        except OSError as error:
            failed = error
        if failed is not None:
            _remove([unfinished])
    failed = everyones(fabric, failed)[0]
    if failed is not None:
        raise failed


def _write_part(path: Path, part: dict[str, Any]) -> dict[str, Any]:
    file = files.Hashing(path)
    try:
        torch.save(part, file)  # type: ignore[arg-type]
    finally:
        checksum = file.close()
    return {"name": path.name, "sha256": checksum, "bytes": file.length}


def _finish(unfinished: Path, final: Path, step: int, parts: list[Any]) -> None:
    manifest = {"format": FORMAT, "step": step, "parts": parts}
    files.write_json(unfinished / MANIFEST, {**manifest, "sha256": _seal(manifest)})
    _remove([final])  # only there if this step is done a second time
    unfinished.rename(final)
    files.sync_folder(final.parent)
    _remove([*steps(final.parent)[KEPT:], *final.parent.glob(f"{ASIDE}step-*")])


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def steps(folder: Path) -> list[Path]:
    """The checkpoints in a folder, newest first."""
    paths = [path for path in folder.glob("step-*") if NAME.fullmatch(path.name)]
    return sorted(paths, key=step_of, reverse=True)


def step_of(path: Path) -> int:
    """The number of steps done before a checkpoint, which names it."""
    return int(path.name.removeprefix("step-"))


def latest(folder: Path, check: Callable[[Path], object] = lambda path: None) -> Path | None:
    """The newest checkpoint that is whole; damaged ones after it are set aside with a warning.

    Args:
        folder: holds the run's checkpoints.
        check: what else may be wrong with one; raises :class:`Damaged`.
    """
    damaged: list[tuple[Path, Damaged]] = []
    for path in steps(folder):
        try:
            verify(path)
            check(path)
        except Damaged as error:
            damaged.append((path, error))
            continue
        for broken, error in damaged:
            aside = broken.with_name(f"{ASIDE}{broken.name}")
            _remove([aside])
            broken.rename(aside)
            warnings.warn(
                f"the checkpoint {broken.name} is damaged ({error}), trying the one before",
                stacklevel=2,
            )
        return path
    if damaged:  # nothing is touched: the same command must not begin anew over what there is
        raise GafError(
            f"no checkpoint in {folder} is whole ({damaged[0][1]}); "
            "put back what is missing, or delete the run to begin it again"
        )
    return None


def verify(path: Path) -> list[Path]:
    """The parts of a checkpoint, compared with their checksums."""
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        seal = manifest.pop("sha256")
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise Damaged(f"its manifest cannot be read: {error}") from error
    except AttributeError as error:
        raise Damaged("its manifest is not what was written") from error
    step, entries = manifest.get("step"), manifest.get("parts")
    sound = type(step) is int and isinstance(entries, list) and "format" in manifest
    if seal != _seal(manifest) or not sound or path.name != f"step-{step:08d}":
        raise Damaged("its manifest is not what was written")
    if manifest["format"] != FORMAT:
        version = manifest["format"]
        raise GafError(f"{path} has format {version}, this version of gaf reads {FORMAT}")
    parts = [path / f"part-{i}.pt" for i in range(len(entries))]
    for part, entry in zip(parts, entries, strict=True):
        about = entry if isinstance(entry, dict) else {}
        if not part.is_file():
            raise Damaged(f"{part.name} is missing")
        if part.stat().st_size != about.get("bytes") or files.sha256(part) != about.get("sha256"):
            raise Damaged(f"{part.name} is not what was written")
    return parts


def _seal(manifest: dict[str, Any]) -> str:
    """A checksum of the manifest's own content, so that only a whole one is believed."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def load(path: Path, rank: int = 0) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """State with whole tensors, and what process ``rank`` had for itself (None where it did not exist).

    The checksums are :func:`verify`'s to compare; here nothing but tensors and plain values is accepted.
    """
    parts: list[dict[str, Any]] = []
    try:
        while (file := path / f"part-{len(parts)}.pt").is_file() or not parts:
            parts.append(_read_part(file))
        state = put_together(parts[0]["state"], [part["pieces"] for part in parts])
        own = put_together(parts[rank]["own"], []) if rank < len(parts) else None
    except OSError as error:
        raise Damaged(f"{file} cannot be read: {error.strerror}") from None
    except GafError as error:
        raise Damaged(f"the checkpoint {path} cannot be read: {error}") from None
    except RecursionError:
        raise Damaged(f"the checkpoint {path} cannot be read: it is nested too deeply") from None
    return state, own


def _read_part(file: Path) -> dict[str, Any]:
    part = tensor_files.load(file)
    keys = ("own", "pieces", "state") if file.stem == FIRST else ("own", "pieces")
    if not isinstance(part, dict) or not all(isinstance(part.get(key), dict) for key in keys):
        raise GafError(f"{file.name} holds no part of a checkpoint")
    return part


def load_model(path: Path) -> tuple[dict[str, Any], int]:
    """The state of the model in a run's checkpoint, and the step."""
    state, _ = load(path)
    model, about = state.get("model"), state.get("state")
    step = about.get("step") if isinstance(about, dict) else None
    if not isinstance(model, dict) or type(step) is not int:
        raise Damaged(f"the checkpoint {path} holds no model")
    return model, step


def run_folder(place: Path) -> Path:
    """The folder of the run, of a place that is it or one of its checkpoints."""
    if not place.is_dir():
        raise GafError(f"there is no folder {place}, so it holds no run")
    # absolute: named from beside it, a checkpoint has no parents
    return place.absolute().parent.parent if NAME.fullmatch(place.name) else place


def find(place: Path) -> tuple[Path, Path]:
    """The folder of the run, and the checkpoint, which is whole."""
    run = run_folder(place)
    if run != place:
        verify(place)
        return run, place
    newest = latest(run / CHECKPOINTS)
    if newest is None:
        read_config(run)  # it says if there is no run at all
        raise GafError(f"the run in {run} has no checkpoint yet: train it first")
    return run, newest


def take_apart(tree: Any, pieces: Pieces, path: str = "") -> Any:
    """The tree with a note for each DTensor; what this process holds of it is added to ``pieces``."""
    if isinstance(tree, dict):
        return {key: take_apart(entry, pieces, f"{path}/{key}") for key, entry in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(take_apart(entry, pieces, f"{path}/{i}") for i, entry in enumerate(tree))
    if not isinstance(tree, DTensor):
        return tree
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(tree.shape, tree.device_mesh, tree.placements)
    pieces[path] = {"offset": list(offset), "values": tree.to_local().detach()}
    return {NOTE: path, "shape": list(tree.shape)}


def put_together(tree: Any, parts: list[Pieces]) -> Any:
    """The tree with whole tensors again; GafError where a piece is missing."""
    if isinstance(tree, dict) and NOTE in tree:
        return _whole(tree[NOTE], tree.get("shape"), parts)
    if isinstance(tree, dict):
        return {key: put_together(entry, parts) for key, entry in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(put_together(entry, parts) for entry in tree)
    if isinstance(tree, Tensor):
        _check_size(tree)
    return tree


def _check_size(values: Tensor) -> None:
    """A view can repeat what a file holds of a tensor any number of times; none is saved as one."""
    if values.numel() * values.itemsize > values.untyped_storage().nbytes():
        raise GafError(f"a tensor of {values.numel()} numbers has not as many in the file")


def _whole(path: Any, shape: Any, parts: list[Pieces]) -> Tensor:
    sound = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not isinstance(path, str) or not sound or len(shape) > AXES:
        raise GafError("a tensor in pieces has no name or no shape")
    pieces = [_piece(part[path], shape) for part in parts if path in part]
    # What the pieces hold bounds what is allocated.
    if not pieces or sum(values.numel() for _, values in pieces) != math.prod(shape):
        raise GafError(f"pieces of {path} are missing")
    whole = torch.empty(shape, dtype=pieces[0][1].dtype)
    for where, values in pieces:
        if values.numel():  # a process may hold nothing of a small tensor
            whole[where] = values
    return whole


def _piece(piece: Any, shape: list[int]) -> tuple[tuple[slice, ...], Tensor]:
    """Where a piece lies in the whole tensor, and its values."""
    entries = piece if isinstance(piece, dict) else {}
    offset, values = entries.get("offset"), entries.get("values")
    if not isinstance(values, Tensor) or not isinstance(offset, list):
        raise GafError("a piece of a tensor is not what was written")
    _check_size(values)
    sizes = list(zip(offset, values.shape, shape, strict=False))
    if not len(sizes) == len(offset) == len(shape) == values.ndim or not all(
        type(start) is int and 0 <= start <= end - length for start, length, end in sizes
    ):
        raise GafError("a piece of a tensor lies outside of it")
    return tuple(slice(start, start + length) for start, length, _ in sizes), values
