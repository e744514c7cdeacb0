"""The training engine against a bare loop that does the same work, written as one would by hand.

Each repetition is an epoch with the evaluation and the checkpoint at its end, once by the engine (with its
records, its safe checkpoints and its repeatable augmentation) and once by the bare loop (indexing, random
crops and flips, or a plain DataLoader over Pillow; torch.save). Images are random: nothing to download.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, Group
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import gaf
from gaf.lab.bench import machine
from gaf.lab.bench.images import CLASSES, MEAN, SIZE, STD, Photos, crops, normalised, write_photos
from gaf.lab.bench.progress import stage
from gaf.lab.bench.timing import collect, ratio, spread

LIMIT = 0.95  # of the bare loop's images a second
BATCH, TRAIN, TEST = 128, 1280, 128
PHOTOS_BATCH, PHOTOS_TRAIN, PHOTOS_TEST, WORKERS = 32, 384, 64, 2
RULE = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "activation": "arctan(0.1, 20)"}

Epoch = Callable[[], object]


def measure(repeats: int, console: Console) -> dict[str, Any]:
    """Both paths; seconds of each epoch, and the ratio of images a second."""
    found: dict[str, Any] = {**machine.facts(), "limit": LIMIT, "paths": {}}
    for name, make, images in (
        ("ResNet-8, CIFAR tensors", _tensors, TRAIN + TEST),
        ("ResNet-8, ImageFolder", _folder, PHOTOS_TRAIN + PHOTOS_TEST),
    ):
        seconds: dict[str, list[float]] = {}
        others = machine.Others()
        with make() as steps, stage(console, name, repeats) as tick:
            collect(steps, seconds, repeats=repeats, shortest=0.0, tick=tick)
        found["paths"][name] = {
            **{
                who: {"images_per_second": spread([images / each for each in times]).as_dict()}
                for who, times in seconds.items()
            },
            "ratio": ratio(seconds["bare loop"], seconds["engine"]).as_dict(),
            "others": others.share(),
        }
    return found


def table(found: Mapping[str, Any]) -> Group:
    """What was measured, for people."""
    repeats = next(iter(found["paths"].values()))["ratio"]["n"]
    shown = Table(
        title="Training engine: images a second, evaluation and checkpoint included",
        caption=f"medians of {repeats} interleaved epochs (10 % to 90 %)",
    )
    for column in ("path", "bare loop", "engine", "ratio", "at least", "verdict"):
        shown.add_column(column, justify="left" if column == "path" else "right", no_wrap=True)
    for name, path in found["paths"].items():
        speeds = [path[who]["images_per_second"]["median"] for who in ("bare loop", "engine")]
        share = path["ratio"]
        verdict = "reached" if share["median"] >= LIMIT else "not reached"
        if (path["others"] or 0.0) > 0.05:
            verdict += f" (others took {path['others']:.0%} of the processors)"
        shown.add_row(
            name,
            *(f"{speed:,.0f}" for speed in speeds),
            f"{share['median']:.3f} ({share['p10']:.3f} to {share['p90']:.3f})",
            f"{LIMIT:.2f}",
            verdict,
        )
    return Group(machine.line(found), shown)


@contextmanager
def _tensors() -> Iterator[dict[str, Epoch]]:
    from gaf.lab.data.augment import CropFlip
    from gaf.lab.data.sources import ImageRecords, TensorSource

    splits = []
    for count in (TRAIN, TEST):
        images = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8)
        splits.append((images, torch.randint(CLASSES, (count,))))

    def source(number: int, augment: CropFlip | None) -> TensorSource:
        images, labels = splits[number]
        records = ImageRecords(images, labels, {})
        names = [str(label) for label in range(CLASSES)]
        return TensorSource("random", records, names, mean=MEAN, std=STD, augment=augment)

    def batches(number: int, train: bool) -> Iterator[tuple[Tensor, Tensor]]:
        images, labels = splits[number]
        order = torch.randperm(len(images)) if train else torch.arange(len(images))
        for index in order.split(BATCH):
            x = images[index]
            yield normalised(crops(x) if train else x), labels[index]

    with ExitStack() as stack:
        engine = stack.enter_context(
            _engine((source(0, CropFlip(4, True)), source(1, None)), BATCH)
        )
        yield {"bare loop": _bare(batches), "engine": engine}


@contextmanager
def _folder() -> Iterator[dict[str, Epoch]]:
    from gaf.lab.data import load

    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_photos(root / "train", PHOTOS_TRAIN)
        write_photos(root / "val", PHOTOS_TEST)
        sources = [
            load(f"imagefolder:{root}", split, size=SIZE, workers=WORKERS)
            for split in ("train", "test")
        ]
        sets = [Photos(root / "train", True), Photos(root / "val", False)]

        def batches(number: int, train: bool) -> Iterator[tuple[Tensor, Tensor]]:
            loader = DataLoader(sets[number], PHOTOS_BATCH, shuffle=train, num_workers=WORKERS)
            for images, labels in loader:
                yield normalised(images), labels

        engine = stack.enter_context(_engine(sources, PHOTOS_BATCH))
        yield {"bare loop": _bare(batches), "engine": engine}


def _model() -> nn.Module:
    from gaf.lab.tasks import models

    return models.build("resnet8-cifar", classes=CLASSES)


def _bare(batches: Callable[[int, bool], Iterator[tuple[Tensor, Tensor]]]) -> Epoch:
    """An epoch by hand."""
    torch.manual_seed(0)
    model = _model()
    opt = gaf.SGD(model.parameters(), **RULE)  # type: ignore[arg-type]

    def epoch() -> None:
        model.train()
        total = torch.zeros(())
        for images, labels in batches(0, True):
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            opt.step()
            opt.zero_grad()
            total += loss.detach()
        total.item()
        model.eval()
        right = 0
        with torch.no_grad():
            for images, labels in batches(1, False):
                guesses = model(images).topk(5).indices == labels[:, None]
                right += int(guesses[:, 0].sum()) + int(guesses.any(1).sum())
        with tempfile.TemporaryFile() as file:
            torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, file)

    return epoch


@contextmanager
def _engine(sources: Sequence[Any], batch: int) -> Iterator[Epoch]:
    """An epoch by the engine."""
    train, test = sources
    from gaf.lab.engine.config import OptimizerConfig, RunConfig, TaskConfig
    from gaf.lab.engine.distributed import make_fabric
    from gaf.lab.engine.loop import fit
    from gaf.lab.engine.progress import Wish
    from gaf.lab.engine.run import prepare
    from gaf.lab.engine.state import go_on
    from gaf.lab.tasks.classification import Classification

    class Bench(Classification):
        def build_model(self) -> nn.Module:
            return _model()

        def train_source(self) -> Any:
            return train

        def test_source(self) -> Any:
            return test

    settings = TaskConfig(data="random", model="resnet8-cifar")
    config = RunConfig(
        name="bench",
        task=settings,
        optimizer=OptimizerConfig(**RULE),  # type: ignore[arg-type]
        epochs=1,
        batch_size=batch,
        accelerator="cpu",
    )
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(config, Path(folder), Bench(settings), make_fabric(config), Wish())
        go_on(run)
        run.total = 0

        def epoch() -> None:
            run.total += run.sampler.steps
            fit(run)

        try:
            yield epoch
        finally:
            if run.records is not None:
                run.records.close()
