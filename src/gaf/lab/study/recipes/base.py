"""The settings of Section IV-C, and the changes that make a recipe of them.

Each function takes or returns a whole config. Where the paper is silent or wrong, the choice made stands
beside the value; docs/recipes.md lists them. The small counterpart of a recipe, which a CPU core finishes in
minutes, changes what costs time: a slim model of the same family, 10,000 images, 10 epochs. What decides how
f acts (rule, rate, decay, momentum, alpha and beta, placement) stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

import gaf
from gaf.lab.engine.config import (
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    TaskConfig,
    matched_control,
)
from gaf.lab.study.recipes import paper
from gaf.lab.study.settings import make, short

# The paper prints Algorithm 1 (update) for SGDM, the authors' scripts ran momentum, and for other
# optimizers f acts on the gradient. A cell does not say which: each is a recipe.

PREFIX = "small-"
IMAGES = 10_000  # the CIFAR-100 that is a hundred images a class
EPOCHS = 10
BATCH = 128  # instead of 256, so that 10 epochs are still 790 steps

_SHALLOW = [1, 1, 1, 1]
SLIM: dict[str, dict] = {
    "resnet34-cifar": {"width": 0.25, "depths": _SHALLOW},
    "resnet50-cifar": {"width": 0.125, "depths": _SHALLOW},
    "preact-resnet34-cifar": {"width": 0.25, "depths": _SHALLOW},
    "preact-resnet50-cifar": {"width": 0.125, "depths": _SHALLOW},
    "densenet121-cifar": {"width": 0.5, "depths": [2, 2, 2, 2]},
    "densenet169-cifar": {"width": 0.25, "depths": [2, 2, 2, 2]},
    "dpn26-cifar": {"width": 0.0625, "depths": _SHALLOW},
    "googlenet-cifar": {"width": 0.125, "depths": [1, 1, 1]},
    "regnetx-200mf-cifar": {"width": 0.25, "depths": _SHALLOW},
    "resnet18-imagenet": {"width": 0.25, "depths": _SHALLOW},
    "resnet34-imagenet": {"width": 0.25, "depths": [2, 2, 2, 2]},
    "resnet50-imagenet": {"width": 0.25, "depths": [2, 2, 2, 2]},
    "se-resnet18-imagenet": {"width": 0.25, "depths": _SHALLOW},
    "se-resnet34-imagenet": {"width": 0.25, "depths": [2, 2, 2, 2]},
    "se-resnet50-imagenet": {"width": 0.25, "depths": [2, 2, 2, 2]},
}


@dataclass(frozen=True)
class Recipe:
    """A training by name.

    Args:
        config: the whole of it.
        group: the heading under which lists show it.
        base: the name of the training that it is a variant of; its own where it is none.
        cell: the paper's own result. A small counterpart and a matched control carry the cell of the
            recipe that they belong to: what they stand beside.
        small: whether it is the counterpart for a laptop.
        control_of: the name of the recipe that it is the matched control of.
    """

    config: RunConfig
    group: str
    base: str
    cell: paper.Cell | None = None
    small: bool = False
    control_of: str | None = None

    @property
    def name(self) -> str:
        """What ``gaf train`` is given."""
        return self.config.name


def with_controls(recipes: Iterable[Recipe]) -> Iterator[Recipe]:
    """Each recipe, and after one with an activation its matched control."""
    for recipe in recipes:
        yield recipe
        if recipe.config.optimizer.activation is not None:
            yield replace(recipe, config=control(recipe.config), control_of=recipe.name)


def imagenet(model: str) -> RunConfig:
    """SGDM on ImageNet (Table I)."""
    return RunConfig(
        name=f"imagenet-{model}-sgdm",
        # The paper fixes only the single 224 x 224 crop of the test. Training: random resized crop and flip.
        task=TaskConfig(data="imagenet", model=f"{model}-imagenet"),
        # Decay acts on all parameters, norms and biases too: the paper names no exception.
        optimizer=OptimizerConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=4e-5),
        # Linear warm-up from 0, rate set at each iteration: the paper says neither.
        schedule=ScheduleConfig(name="cosine", warmup=5.0, unit="epoch", every="iteration"),
        epochs=150,
        # "Batch size 64", on ten GPUs: for each or in all is not said. In all, as printed.
        batch_size=64,
        precision="16-mixed",  # "mix precision" on cards that have no bf16
        channels_last=True,
    )


def cifar(data: str, model: str) -> RunConfig:
    """SGDM on CIFAR-10 or CIFAR-100 (Table II)."""
    return RunConfig(
        name=f"{data}-{model}-sgdm",
        # Pad-4 crop and flip, which the dataset's training split has by default, are the authors' code's.
        task=TaskConfig(data=data, model=f"{model}-cifar"),
        optimizer=OptimizerConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4),
        # No warm-up is named for CIFAR. The rate changes once an epoch, as torch's CosineAnnealingLR is
        # mostly used: the paper does not say how often.
        schedule=ScheduleConfig(name="cosine", every="epoch"),
        epochs=200,
        batch_size=256,
    )


def cifar_adam(data: str, model: str) -> RunConfig:
    """The same training by Adam (Table III).

    The paper gives Adam no learning rate, and 0.1, its only one for CIFAR, is implausible: torch's 0.001,
    as in the authors' code. The weight decay is the one for CIFAR, as L2, which is what Adam's is.
    """
    config = cifar(data, model)
    rule = OptimizerConfig(name="adam", lr=1e-3, weight_decay=config.optimizer.weight_decay)
    return config.model_copy(update={"name": f"{data}-{model}-adam", "optimizer": rule})


def placements(rule: OptimizerConfig) -> tuple[str, ...]:
    """Where the paper and its authors' code may have put f, the usual place first."""
    if rule.name != "sgd":
        return ("gradient",)
    return ("momentum", "update", "gradient") if rule.momentum > 0 else ("gradient", "update")


def with_setting(config: RunConfig, setting: str) -> RunConfig:
    """The same training under a setting of :mod:`gaf.lab.study.settings`, such as ``clip-norm-0.1``."""
    made = make(config, setting)
    return made.config.model_copy(update={"name": f"{config.name}-{made.name}"})


def with_activation(config: RunConfig, activation: str, placement: str) -> RunConfig:
    """The same training with f at a placement; the name tells both.

    Example:
        >>> with_activation(cifar("cifar100", "dpn26"), "log(0.1, 20)", "update").name
        'cifar100-dpn26-sgdm-log-0.1-20@update'
    """
    f = gaf.parse(activation)
    values = "-".join(map(short, f.params))
    name = f"{config.name}-{f.name}-{values}@{placement}"
    made = make(config, f"{activation}@{placement}")
    return made.config.model_copy(update={"name": name})


def control(config: RunConfig) -> RunConfig:
    """The matched control: f replaced by its slope."""
    return matched_control(config).model_copy(update={"name": f"{config.name}+control"})


def small(config: RunConfig) -> RunConfig:
    """The small counterpart of a recipe of the paper.

    Those of ImageNet train on CIFAR-100, whose images their stem makes 8 x 8, since few laptops hold
    ImageNet. Their warm-up keeps its share of the training.
    """
    task, schedule = config.task, config.schedule
    data = "cifar100" if task.data == "imagenet" else task.data
    task = task.model_copy(update={"data": data, "model_options": deepcopy(SLIM[task.model])})
    warmup = schedule.warmup * EPOCHS / config.epochs if config.epochs else 0.0
    config = config.model_copy(
        update={
            "name": PREFIX + config.name,
            "task": task,
            "schedule": schedule.model_copy(update={"warmup": warmup}),
            "epochs": EPOCHS,
            "batch_size": min(config.batch_size, BATCH),
        }
    )
    return some_images(on_a_core(config))


def on_a_core(config: RunConfig) -> RunConfig:
    """Single precision, and the layout that is mostly faster on CPUs.

    One thread: models this small gain little from a second, and two runs side by side fill two cores.
    """
    return config.model_copy(update={"precision": "32-true", "threads": 1, "channels_last": True})


def some_images(config: RunConfig) -> RunConfig:
    """As many images of each class as make 10,000."""
    task = config.task.model_copy(update={"data_options": {"limit": IMAGES}})
    return config.model_copy(update={"task": task})
