"""The training engine against a bare loop that does the same work, written as one would by hand.

Each repetition is an epoch with the evaluation and the checkpoint at its end, once by the engine (with its
records, its safe checkpoints and its repeatable augmentation) and once by the bare loop (indexing, random
crops and flips, or a plain DataLoader over Pillow; torch.save). Images are random: nothing to download.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, Group
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import gaf
from gaf.lab.bench import machine
from gaf.lab.bench.targets import verdict
from gaf.lab.bench.timing import Spread, ratio, sheet, spread, timed

LIMIT = 0.95  # of the bare loop's images a second
BATCH, TRAIN, TEST = 128, 1280, 128
PHOTOS_BATCH, PHOTOS_TRAIN, PHOTOS_TEST, WORKERS = 32, 384, 64, 2
RULE = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "activation": "arctan(0.1, 20)"}

Epoch = Callable[[], object]


def measure(repeats: int, console: Console) -> dict[str, Any]:
    """Both paths; seconds of each epoch, and the ratio of images a second."""
    paths = {}
    for name, make, images in (
        ("ResNet-8, CIFAR tensors", _tensors, TRAIN + TEST),
        ("ResNet-8, ImageFolder", _folder, PHOTOS_TRAIN + PHOTOS_TEST),
    ):
        others = machine.Others()
        with make() as steps:
            seconds = timed(console, name, steps, repeats=repeats, shortest=0.0)
        speeds = {who: spread([images / time for time in times]) for who, times in seconds.items()}
        paths[name] = {
            **{who: {"images_per_second": asdict(speed)} for who, speed in speeds.items()},
            "ratio": asdict(ratio(seconds["bare loop"], seconds["engine"])),
            "others": others.share(),
        }
    return {**machine.facts(), "limit": LIMIT, "paths": paths}


def table(record: Mapping[str, Any]) -> Group:
    """What was measured, for people."""
    rows, repeats = [], 0
    for name, path in record["paths"].items():
        speeds = (path[who]["images_per_second"]["median"] for who in ("bare loop", "engine"))
        share = Spread(**path["ratio"])
        judged = verdict(share.median >= LIMIT, path["others"])
        shown = (f"{speed:,.0f}" for speed in speeds)
        rows.append((name, *shown, f"{share:.3f}", f"{LIMIT:.2f}", judged))
        repeats = share.n
    comparison = sheet(
        "Training engine: images a second, evaluation and checkpoint included",
        ("path", "bare loop", "engine", "ratio", "at least", "verdict"),
        rows,
        caption=f"medians of {repeats} interleaved epochs (10 % to 90 %)",
    )
    return Group(machine.line(record), comparison)


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

    with _engine((source(0, CropFlip(4, True)), source(1, None)), BATCH) as engine:
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
    from gaf.lab.engine.run import prepare
    from gaf.lab.engine.signals import Wish
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


CLASSES = 10
SIZE = 64  # of photographs, once cut
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


def crops(images: Tensor) -> Tensor:
    """Random crops after a padding of 4, and flips, as loops for CIFAR on tensors have them."""
    count, _, height, width = images.shape
    padded = functional.pad(images, (4, 4, 4, 4))
    top, left = torch.randint(9, (2, count, 1))
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    flipped = torch.rand(count, 1) < 0.5
    columns = torch.where(flipped, columns.flip(1), columns)
    number = torch.arange(count)[:, None, None]
    cropped = padded[number, :, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2).contiguous()


def normalised(images: Tensor) -> Tensor:
    """Bytes to numbers around 0."""
    mean, std = (torch.tensor(channels).view(-1, 1, 1) for channels in (MEAN, STD))
    return images.float().div_(255).sub_(mean).div_(std)


class Photos(Dataset[tuple[Tensor, int]]):
    """A folder of images as one writes it by hand: random resized crop and flip, or the centre."""

    def __init__(self, folder: Path, train: bool) -> None:
        classes = sorted(path for path in folder.iterdir())
        self.files = [
            (path, label) for label, name in enumerate(classes) for path in sorted(name.iterdir())
        ]
        self.train = train

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        import numpy as np
        from PIL import Image

        path, label = self.files[number]
        with Image.open(path) as file:
            image = file.convert("RGB")
        width, height = image.size
        if self.train:
            area, shape, x, y, flip = torch.rand(5).tolist()
            side = (width * height * (0.08 + 0.92 * area)) ** 0.5
            stretch = (0.75 + shape * (4 / 3 - 0.75)) ** 0.5
            w, h = min(width, round(side * stretch)), min(height, round(side / stretch))
            left, top = int(x * (width - w + 1)), int(y * (height - h + 1))
            image = image.crop((left, top, left + w, top + h)).resize((SIZE, SIZE), 2)
            if flip < 0.5:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        else:
            short = round(SIZE * 256 / 224)
            image = image.resize((short, short), 2)
            edge = (short - SIZE) // 2
            image = image.crop((edge, edge, edge + SIZE, edge + SIZE))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous(), label


def write_photos(folder: Path, count: int) -> None:
    """JPEG files of the size and smoothness of photographs."""
    from PIL import Image

    generator = torch.Generator().manual_seed(count)
    for number in range(count):
        coarse = torch.rand(1, 3, 12, 12, generator=generator)
        image = functional.interpolate(coarse, (256, 256), mode="bicubic").clamp(0, 1)[0]
        pixels = (255 * image).byte().permute(1, 2, 0).contiguous()
        path = folder / f"class{number % CLASSES}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.frombytes("RGB", (256, 256), bytes(pixels.flatten().tolist())).save(path, quality=90)
