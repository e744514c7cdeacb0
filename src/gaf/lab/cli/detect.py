"""The command line of ``gaf detect``."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import track

from gaf.common.errors import GafError
from gaf.lab.cli import terminal

if TYPE_CHECKING:
    from PIL.Image import Image

    from gaf.lab.reports.detections import DetectedObject


def detect(
    checkpoint: Annotated[
        Path, typer.Argument(help="The folder of a run, or a checkpoint in it.", show_default=False)
    ],
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE", help="Photographs, one or more.", show_default=False),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the pictures go; made if it is missing.")
    ] = Path("detections"),
    score: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The least score of a box that is shown.")
    ] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the boxes as JSON.")] = False,
) -> int:
    """Find objects with a trained detector, and write pictures with labelled boxes.

    Example: gaf detect runs/small-voc-ssd300-sgdm-seed0 photo.jpg --score 0.3 --out pictures
    """
    from gaf.lab.reports.detections import Detector, draw

    targets = _targets(images, out)
    detector = Detector(checkpoint)
    results: list[dict[str, Any]] = []
    for path, target in _with_progress(list(zip(images, targets, strict=True))):
        image, boxes = detector(path, score)
        _save(draw(image, boxes), target)
        found = [box._asdict() for box in boxes]
        results.append({"image": str(path), "picture": str(target), "found": found})
        if not as_json:
            terminal.show(f"{path}: {summary(boxes)}; in {target}")
    if as_json:
        print(json.dumps({"checkpoint": str(detector.step), "images": results}, indent=2))
    return 0


def _targets(images: list[Path], out: Path) -> list[Path]:
    """Where the pictures go: under the images' own names, as PNG; two images of one name are refused."""
    targets = [out / f"{path.stem}.png" for path in images]
    counts = Counter(targets)
    for path, target in zip(images, targets, strict=True):
        if path.is_dir():
            raise GafError(f"{path} is a folder: name the images in it")
        if counts[target] > 1:
            raise GafError(
                f"two images would become {target}: name them in two commands, each with its own --out"
            )
        if target.resolve() == path.resolve():
            raise GafError(f"{path} would be overwritten: choose another folder with --out")
    return targets


def summary(boxes: Sequence[DetectedObject]) -> str:
    """What was found, the surest kind first: each with its best score, and how many where it is not one."""
    counts = Counter(box.name for box in boxes)
    best = {box.name: box.score for box in reversed(boxes)}  # the surest of a kind is written last
    words = [
        f"{name} {best[name]:.2f}" if count == 1 else f"{count} x {name} up to {best[name]:.2f}"
        for name, count in counts.items()
    ]
    return ", ".join(words) or "nothing"


def _with_progress(work: list[tuple[Path, Path]]) -> Any:
    """A bar on a terminal; elsewhere the line of each image tells."""
    console = terminal.stderr()
    return track(work, "images", console=console, transient=True) if sys.stderr.isatty() else work


def _save(picture: Image, target: Path) -> None:
    from gaf.common.files import write_whole

    content = io.BytesIO()
    picture.save(content, "PNG")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content.getvalue())
    except OSError as error:
        raise GafError(f"{target} cannot be written: {error.strerror}") from None
