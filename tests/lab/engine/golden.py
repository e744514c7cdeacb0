"""A few seeded steps of every built-in part, as numbers that a change of its results changes.

``golden.json`` keeps them with the version of the part. After a change that is meant, raise the version, then

    python -m tests.lab.engine.golden [PART...]

Each part is computed with as little of the others as can be, so that a change names what it concerns.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import gaf
from gaf.functions.registry import function_type
from gaf.functions.registry import names as function_names
from gaf.lab.engine.config import TaskConfig
from gaf.lab.engine.loop import VERSION
from gaf.lab.engine.run import train
from gaf.lab.study.recipes.laptop import HARD_TASK
from gaf.lab.tasks import BUILT_IN, Task, built_in, load_task, models
from gaf.lab.tasks.classification.deep_sigmoid import DeepSigmoid, deep_sigmoid
from gaf.lab.tasks.detection.boxes import default_boxes
from gaf.lab.tasks.models import build
from gaf.optim.factory import OURS
from tests.lab.engine.tiny import last_checkpoint, tiny_config

FILE = Path(__file__).with_name("golden.json")
COMMAND = "python -m tests.lab.engine.golden"
# Other processors and builds of torch round otherwise. Seen between AVX2 and none, in torch and in the
# kernels: at most 4e-5. A change of a formula or of a constant is far larger.
TOLERANCE = 1e-4

Numbers = list[float]


def parts() -> dict[str, tuple[int, Callable[[Path], Numbers]]]:
    """Every part that an identity names by a version: that, and what computes its numbers in a folder."""
    found: dict[str, tuple[int, Callable[[Path], Numbers]]] = {"engine": (VERSION, engine)}
    for kind in BUILT_IN:
        cls = built_in(kind)
        found[f"task {kind}"] = (cls.version, partial(task, kind))
    found[f"task {HARD_TASK}"] = (DeepSigmoid.version, hard_case)
    for name in (*models.MODELS, *models.DETECTORS, *models.DECODERS):
        found[f"model {name}"] = (models.version(name), partial(model, name))
    for name, rule in OURS.items():
        found[f"rule {name}"] = (rule.version, partial(rule_steps, name))
    for name in function_names():
        if function_type(name).__module__.startswith("gaf."):
            found[f"function {name}"] = (function_type(name).version, partial(function, name))
    found["function auto"] = (gaf.Auto.version, auto)
    return found


def complaint(name: str, version: int, numbers: Numbers, known: dict[str, Any] | None) -> str:
    """What is wrong between a part and what is recorded of it; '' for nothing."""
    refresh = f'{COMMAND} "{name}"'
    if known is None:
        return f"{name} has no golden numbers: write them with {refresh}"
    if known["version"] != version:
        return f"the golden numbers of {name} are of version {known['version']}, not {version}: {refresh}"
    if not close(numbers, known["numbers"]):
        return (
            f"{name} gives other numbers than version {version} did: raise its version, which runs are known "
            f"by, then refresh with {refresh}; {numbers} is not {known['numbers']}"
        )
    return ""


def close(numbers: Numbers, known: Numbers) -> bool:
    """Within the tolerance, of each number or of the typical one where it is small."""
    if len(numbers) != len(known):
        return False
    least = TOLERANCE * float(np.median(np.abs(known)))
    return all(
        abs(a - b) <= max(least, TOLERANCE * abs(b)) for a, b in zip(numbers, known, strict=True)
    )


def read() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {}


def main(names: list[str]) -> None:
    """Write the numbers of some parts, or of all; one that changed under the same version is refused."""
    recorded, known = read(), parts()
    written = {name: entry for name, entry in recorded.items() if name in known}
    for name in names or known:
        version, compute = known[name]
        with tempfile.TemporaryDirectory() as folder:
            numbers = [float(f"{number:.7g}") for number in compute(Path(folder))]
        old = recorded.get(name)
        if old and old["version"] == version and not close(numbers, old["numbers"]):
            sys.exit(complaint(name, version, numbers, old))
        written[name] = {"version": version, "numbers": numbers}
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(written[name])}" for name in known if name in written
    )
    FILE.write_text(f"{{\n{lines}\n}}\n", "utf-8")


# -- functions and rules: how far eight weights go, by gradients of very different sizes ------------


def weights() -> Tensor:
    return torch.linspace(-0.1, 0.1, 8)


def gradients(step: int) -> Tensor:
    return torch.tensor([math.sin(3 * step + i) * 10.0 ** (i % 5 - 3) for i in range(8)])


def stepped(make: Callable[[list[nn.Parameter]], torch.optim.Optimizer], steps: int = 4) -> Tensor:
    w = nn.Parameter(weights())
    optimizer = make([w])
    for step in range(steps):
        w.grad = gradients(step)
        optimizer.step()
    return w.detach() - weights()


def function(name: str, folder: Path) -> Numbers:
    """By its name alone: what a text without numbers stands for counts."""
    return stepped(lambda w: gaf.SGD(w, lr=0.5, activation=name)).tolist()


def rule_steps(name: str, folder: Path) -> Numbers:
    """Its variants, two weights of each."""
    f = "arctan(0.1, 20)"
    if name == "sgd":
        variants = [
            {"momentum": 0.9, "activation": f},  # in the default placement
            {"momentum": 0.9, "nesterov": True, "activation": f, "placement": "gradient"},
            {"momentum": 0.9, "dampening": 0.2, "activation": f, "placement": "update"},
            {"momentum": 0.9},
        ]
    elif name == "lion":
        variants = [{"activation": f}, {"activation": f, "betas": (0.7, 0.9)}, {}]
    else:
        variants = [
            {"activation": f},
            {"activation": f, "amsgrad": True, "betas": (0.9, 0.5)},
            {"betas": (0.7, 0.9)},
            {},
        ]
    shared = {"lr": 0.1, "weight_decay": 0.1}
    found = [stepped(lambda w, v=v: OURS[name](w, **shared, **v)) for v in variants]  # type: ignore[misc]
    return [each[i].item() for each in found for i in (2, 5)]


def auto(folder: Path) -> Numbers:
    """A matrix and a vector, whose ranges Auto sets apart."""
    matrix, vector = nn.Parameter(weights().view(2, 4)), nn.Parameter(weights()[:4])
    optimizer = gaf.SGD([matrix, vector], lr=0.1, momentum=0.9, activation="auto")
    for step in range(6):
        matrix.grad, vector.grad = gradients(step).view(2, 4), gradients(step + 9)[:4]
        optimizer.step()
    moved = [matrix.detach().flatten() - weights(), vector.detach() - weights()[:4]]
    return [*moved[0][::2].tolist(), *moved[1].tolist()]


# -- models: initial weights, outputs and gradients ----------------------------------------------------


def model(name: str, folder: Path) -> Numbers:
    """In float64 where there are normalisations, which would magnify rounding."""
    detector, decoder = name in models.DETECTORS, name in models.DECODERS
    torch.manual_seed(0)
    made = build(name, classes=5, **({"size": 8} if decoder else {})).eval()
    side = 300 if detector else 8 if name in ("digits-cnn", "mlp") else 32
    inputs = torch.linspace(-1, 1, 3 * side * side).mul(17).sin().view(1, 3, side, side)
    if decoder:
        inputs = torch.arange(16).view(2, 8) % 5
    elif not detector:
        made, inputs = made.double(), inputs.double()
    with torch.no_grad():
        outputs = made(inputs)
    flat = torch.cat([each.flatten() for each in (outputs if detector else (outputs,))])
    first, *_, last = made.parameters()
    total = sum(p.detach().double().abs().sum().item() for p in made.parameters())
    sizes = [flat.abs().mean().item(), first.abs().mean().item(), last.abs().mean().item()]
    return [total, *sizes, *flat[:2].tolist(), *first.flatten()[:2].tolist()]


# -- tasks: their data, loss and metrics, on a model that belongs to nobody ----------------------------


class Linear(nn.Module):
    """Of all pixels; zero at first, so that no generator has a say."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, features))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weight.T


class Characters(nn.Module):
    """The next character by the last one."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight[x]


class Boxes(nn.Module):
    """A guess for each default box, which the mean colour of the image changes for all alike."""

    defaults: Tensor
    guesses: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("defaults", default_boxes())
        guesses = torch.arange(len(self.defaults) * 25).float().mul(1.7).sin().view(-1, 25)
        guesses[:, 21:] = 0  # the box itself; a large one is more certain, as the objects are large
        area = self.defaults[:, 2:].prod(dim=1, keepdim=True)
        self.register_buffer("guesses", 9 * area * guesses)
        self.weight = nn.Parameter(torch.zeros(3, 25))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        found = (images.mean(dim=(2, 3)) @ self.weight)[:, None] + self.guesses
        return found[..., :21], found[..., 21:]


def task_steps(made: Task, net: nn.Module, batch: int = 8, lr: float = 0.5) -> Numbers:
    """Three steps of torch's own SGD, then losses, metrics and two sums of the weights."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    source, test = made.train_source(), made.test_source()
    indices = [torch.arange(i * batch, (i + 1) * batch) % len(source) for i in range(3)]
    where = {"seed": 1, "epoch": 1, "device": torch.device("cpu")}
    losses = []
    for each in source.batches(indices, **where):  # type: ignore[arg-type]
        loss = made.loss(net, each)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        metrics = made.evaluate(net, test.batches([torch.arange(len(test))], **where))  # type: ignore[arg-type]
    weight = next(net.parameters())
    sums = [weight.detach().abs().sum().item(), weight.detach().square().sum().item()]
    return [losses[-1], metrics["loss"], made.score_of(metrics), *sums]


def task(kind: str, folder: Path) -> Numbers:
    """A kind of task without numbers here is a KeyError: write a function that computes some."""
    return TASKS[kind](folder)


def classification(folder: Path) -> Numbers:
    """Every kind of reader with its normalisation and augmentation: embedded, CIFAR, IDX, image folders."""
    write_cifar(folder / "cifar-10-batches-bin")
    write_mnist(folder / "mnist")
    write_folders(folder / "photos")
    found: Numbers = []
    for data in ("digits", "cifar10", "mnist", f"imagefolder:{folder / 'photos'}"):
        options: dict[str, Any] = {"root": str(folder), "workers": 0}
        if data.startswith("imagefolder"):
            options["size"] = 32
        config = TaskConfig(data=data, data_options=options, model="mlp", label_smoothing=0.1)
        made = load_task(config)
        source = made.train_source()
        net = Linear(math.prod(source.shape), len(source.classes))
        found += task_steps(made, net, lr=0.01)
    return found


def language(folder: Path) -> Numbers:
    (folder / "text").mkdir()
    text = "".join(f"{n * n % 97} times {n % 7} is no {n % 13}. " for n in range(200))
    (folder / "text" / "tinyshakespeare.txt").write_text(text)
    options: dict[str, Any] = {"root": str(folder), "size": 16}
    made = load_task(
        TaskConfig(kind="language", data="text", data_options=options, model="transformer")
    )
    return task_steps(made, Characters(len(made.train_source().classes)), lr=20.0)


def detection(folder: Path) -> Numbers:
    write_voc(folder / "VOCdevkit" / "VOC2007")
    options: dict[str, Any] = {"root": str(folder), "workers": 0}
    config = TaskConfig(kind="detection", data="voc2007", data_options=options, model="ssd300")
    return task_steps(load_task(config), Boxes(), batch=2, lr=0.01)


def policy_gradient(folder: Path) -> Numbers:
    config = TaskConfig(
        kind="policy-gradient",
        data="cartpole",
        data_options={"episodes": 16, "steps": 60},
        model="mlp",
    )
    return task_steps(load_task(config), Linear(4, 2), lr=5.0)


TASKS: dict[str, Callable[[Path], Numbers]] = {
    "classification": classification,
    "language": language,
    "detection": detection,
    "policy-gradient": policy_gradient,
}


def hard_case(folder: Path) -> Numbers:
    return task_steps(deep_sigmoid(), Linear(64, 10), lr=0.1)


def pattern(*shape: int, offset: int = 0) -> np.ndarray:
    """Bytes that no generator makes."""
    places = np.indices(shape)
    total = sum((7 + 6 * axis) * place for axis, place in enumerate(places))
    return ((total + offset + places.prod(axis=0) % 23 * 5) % 256).astype(np.uint8)


def write_cifar(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        records = [
            bytes([i]) + pattern(3, 32, 32, offset=9 * i + number).tobytes() for i in range(10)
        ]
        (folder / f"{name}.bin").write_bytes(b"".join(records))


def write_mnist(folder: Path) -> None:
    folder.mkdir(parents=True)
    for split, count in (("train", 30), ("t10k", 20)):
        head = b"\0\0\x08\x03" + np.array([count, 28, 28], ">i4").tobytes()
        (folder / f"{split}-images-idx3-ubyte").write_bytes(head + pattern(count, 28, 28).tobytes())
        head = b"\0\0\x08\x01" + np.array([count], ">i4").tobytes()
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(
            head + bytes(i % 10 for i in range(count))
        )


def write_folders(folder: Path) -> None:
    """Smooth pictures without loss: builds of Pillow and of its decoders agree on them."""
    for split in ("train", "val"):
        for number, name in enumerate(("cat", "dog")):
            (folder / split / name).mkdir(parents=True)
            for i in range(6):
                smooth(40 + i, 48, 50 * number + i).save(folder / split / name / f"{i}.png")


def write_voc(folder: Path) -> None:
    for inner in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / inner).mkdir(parents=True)
    for i in range(6):
        smooth(120, 90, 30 * i).save(folder / "JPEGImages" / f"{i}.jpg", format="PNG")
        box = f"<xmin>{5 + i}</xmin><ymin>10</ymin><xmax>{60 + i}</xmax><ymax>80</ymax>"
        kind = ("dog", "cat", "person")[i % 3]
        (folder / "Annotations" / f"{i}.xml").write_text(
            "<annotation><size><width>120</width><height>90</height></size>"
            f"<object><name>{kind}</name><bndbox>{box}</bndbox></object></annotation>"
        )
    for split in ("trainval", "test"):
        (folder / "ImageSets/Main" / f"{split}.txt").write_text("".join(f"{i}\n" for i in range(6)))


def smooth(width: int, height: int, offset: int) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    waves = [
        128 + 90 * np.sin((x + offset) / 9 + c) * np.cos((y - offset) / 7 - c) for c in range(3)
    ]
    return Image.fromarray(np.stack(waves, axis=2).astype(np.uint8))


# -- the engine: order of samples, schedules, what is done to gradients, seeds of the model ----------------


def engine(folder: Path) -> Numbers:
    """Without an activation the rule is torch's own."""
    plain = ("optimizer.activation=null", "monitor_every=0", "seed=3")
    variants = [
        ("optimizer.clip_norm=0.5", "schedule.warmup=1", "accumulate=2"),
        ("optimizer.normalize=0.3", "schedule.name=step", "schedule.milestones=[1,2]"),
        ("optimizer.centralize=true", "optimizer.clip_value=0.05", "drop_last=true"),
        ("schedule.every=epoch", "schedule.floor=0.1", "batch_size=24"),
    ]
    return [
        number
        for i, each in enumerate(variants)
        for number in _trained(folder / str(i), *plain, *each)
    ]


def _trained(folder: Path, *changes: str) -> Iterator[float]:
    result = train(tiny_config(*changes, dropout=0.1), folder)
    yield result.final["loss"]
    yield last_checkpoint(folder)["model"]["0.weight"][3, 5].item()


if __name__ == "__main__":
    main(sys.argv[1:])
