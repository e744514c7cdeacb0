"""What the runs of a table cost: counted in operations, and timed on this machine.

A run takes steps x batch samples forward and back, which is three times the operations of forward, and the
test set forward after each epoch it is evaluated in. Seconds are those of runs that are finished, or of the
better of two steps on random images, on a CPU without the time that others had it. Reading data is not in
them, nor is what runs beside each other cost each other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gaf.lab.data import DataError, catalog
from gaf.lab.engine import rng
from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.folder import Result
from gaf.lab.engine.optimizers import make_optimizer
from gaf.lab.study.grid import Outcome, digest, places
from gaf.lab.tasks import models

# Classes and images of what tables train on, so that nothing need be on disk to know the cost.
IMAGES: dict[str, tuple[int, tuple[int, int, int]]] = {
    "imagenet": (1000, (3, 224, 224)),
    "cifar10": (10, (3, 32, 32)),
    "cifar100": (100, (3, 32, 32)),
    "digits": (10, (1, 8, 8)),
    "voc": (20, (3, 300, 300)),
}
BACK = 3  # forward and back, in units of forward
TIMED = 2e10  # operations of the step that is timed: seconds at most, whatever the model


@dataclass(frozen=True)
class Cost:
    """Of one run; None where it cannot be told, as the time of half precision on a CPU: nobody waits for it.

    ``measured``: whether the seconds come from runs that are finished, not from one step.
    """

    steps: int | None
    operations: float | None
    seconds: float | None
    measured: bool = False


@dataclass(frozen=True)
class Left:
    """A config of the table: which seeds are to run, which are finished, and what a run costs."""

    config: RunConfig
    todo: tuple[int, ...]
    done: tuple[int, ...]
    cost: Cost


@dataclass(frozen=True)
class Bill:
    """Of all runs that are to be trained. None where the cost of one of them cannot be told.

    ``seconds`` are those of one device that trains them one after another, ``at_once`` how many do.
    """

    todo: int
    finished: int
    operations: float | None
    seconds: float | None
    at_once: int | None
    measured: bool


def bill(left: Sequence[Left], at_once: int | None) -> Bill:
    """Add up."""
    todo = [(entry.cost, len(entry.todo)) for entry in left if entry.todo]

    def total(amounts: list[float | None]) -> float | None:
        if not all(amounts):
            return None
        return sum((amount or 0.0) * n for amount, (_, n) in zip(amounts, todo, strict=True))

    return Bill(
        todo=sum(n for _, n in todo),
        finished=sum(len(entry.done) for entry in left),
        operations=total([cost.operations for cost, _ in todo]),
        seconds=total([cost.seconds for cost, _ in todo]),
        at_once=at_once,
        measured=all(cost.measured for cost, _ in todo),
    )


def as_json(left: Left) -> dict[str, Any]:
    """For machines: the recipe, the seeds, the cost of one run."""
    seeds = {"todo": left.todo, "finished": left.done}
    return {"recipe": left.config.name, **seeds, **asdict(left.cost)}


def left_to_do(
    configs: Iterable[RunConfig], folder: Path, say: Callable[[str], None] = lambda text: None
) -> list[Left]:
    """The runs by config, seeds put together, in order; ``say`` is told what is being timed."""
    once: dict[str, RunConfig] = {}
    groups: dict[str, list[RunConfig]] = {}
    for config in configs:
        once.setdefault(digest(config), config)
    for config in once.values():
        groups.setdefault(digest(config.model_copy(update={"seed": 0})), []).append(config)
    outcomes = _finished(once, folder)
    timed: dict[str, Cost] = {}
    for several in groups.values():
        ended = [outcomes[key] for config in several if (key := digest(config)) in outcomes]
        if results := [outcome.result for outcome in ended if outcome.result]:
            timed[_same_step(several[0])] = estimate(several[0], results)
    left = []
    for first, *others in groups.values():
        same = _same_step(first)
        if same not in timed:
            say(f"timing a step of {first.task.model}")
            timed[same] = estimate(first)
        finished = {config.seed: digest(config) in outcomes for config in (first, *others)}
        todo = tuple(seed for seed, is_finished in finished.items() if not is_finished)
        done = tuple(seed for seed, is_finished in finished.items() if is_finished)
        left.append(Left(first, todo, done, timed[same]))
    return left


def _finished(configs: Mapping[str, RunConfig], folder: Path) -> dict[str, Outcome]:
    """The runs that are finished; none where their data is not here to tell them by."""
    if not folder.is_dir():
        return {}
    try:
        at = places(configs.values(), folder)
    except DataError:
        return {}
    return {key: outcome for key, place in at.items() if (outcome := place.finished())}


def _same_step(config: RunConfig) -> str:
    """What tells runs apart that take different times: anything but the rule and the seed."""
    rule = type(config.optimizer)()
    return digest(config.model_copy(update={"optimizer": rule, "seed": 0}))


def estimate(config: RunConfig, results: Sequence[Result] = ()) -> Cost:
    """The cost of a run; from results of such runs where there are any."""
    known = IMAGES.get(config.task.data)
    counts = _counts(config)
    if known is None or counts is None:
        return Cost(config.iterations, None, None)
    classes, shape = known
    train, test = counts
    epoch = -(-train // config.batch_size)
    steps = config.iterations or (config.epochs or 0) * epoch
    evaluations = -(-steps // (config.evaluate_every * epoch)) if config.evaluate_every else 1
    forward = operations(_model(config, classes, shape[0], "meta"), shape)
    # samples forward and back, and samples forward alone in units of that
    work = steps * min(config.batch_size, train) + evaluations * test / BACK
    if results:
        step = sum(result.seconds_per_step for result in results) / len(results)
        sample = step / min(config.batch_size, train)
    else:
        sample = seconds_a_sample(config, classes, shape, forward)
    seconds = None if sample is None else sample * work
    return Cost(steps, BACK * forward * work, seconds, measured=bool(results))


def _counts(config: RunConfig) -> tuple[int, int] | None:
    """Samples to train on and to score on."""
    if config.task.own:
        return None
    counts = catalog.find(config.task.data).counts
    if not counts:
        return None
    limit = config.task.data_options.get("limit")
    most = limit if isinstance(limit, int) else max(counts.values())
    train, test = min(counts["train"], most), min(counts["test"], most)
    held_out = round(config.task.validation * train)
    return train - held_out, test if config.task.score_on == "test" else held_out


def _model(config: RunConfig, classes: int, channels: int, device: Any) -> nn.Module:
    options: dict[str, Any] = dict(config.task.model_options)
    if config.task.kind == "classification":
        options["in_channels"] = channels
    with torch.device(device):
        return models.build(config.task.model, classes=classes, **options)


def operations(model: nn.Module, shape: tuple[int, int, int]) -> float:
    """Multiplications and additions of one sample forward; nothing is computed.

    Example:
        >>> with torch.device("meta"):
        ...     model = nn.Conv2d(3, 8, 3, padding=1)
        >>> operations(model, (3, 10, 10)) == 2 * 3 * 8 * 9 * 100
        True
    """
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model.eval()(torch.empty(1, *shape, device="meta"))
    return float(counter.get_total_flops())


def seconds_a_sample(
    config: RunConfig, classes: int, shape: tuple[int, int, int], forward: float
) -> float | None:
    """Of training on this machine, on images of noise; the first step only warms up."""
    cuda = config.accelerator in ("auto", "cuda") and torch.cuda.is_available()
    if not cuda and config.precision != "32-true":
        return None
    device = torch.device("cuda" if cuda else "cpu")
    few = int(TIMED / (BACK * max(forward, 1.0)))
    batch = min(config.batch_size, max(2, few))
    half = torch.bfloat16 if config.precision == "bf16-mixed" else torch.float16
    best = math.inf
    with rng.own_settings(config.threads):
        model = _model(config, classes, shape[0], device)
        images = torch.randn(batch, *shape, device=device)
        if config.channels_last:
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            images = images.contiguous(memory_format=torch.channels_last)
        optimizer = make_optimizer(config.optimizer, model.train().parameters())
        for number in range(3):
            began = _clock(cuda)
            with torch.autocast(device.type, half, enabled=config.precision != "32-true"):
                loss = _sum(model(images))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            best = best if number == 0 else min(best, _clock(cuda) - began)
    return best / batch


def _clock(cuda: bool) -> float:
    """Seconds: of the GPU's work, or of this process's on the cores it has."""
    if cuda:
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time() / torch.get_num_threads()


def _sum(outputs: Any) -> Tensor:
    """Of all that a model gives: a detector gives several."""
    if isinstance(outputs, Tensor):
        return outputs.float().mean()
    return torch.stack([_sum(output) for output in outputs]).sum()
