"""From a recipe of the paper to its small counterpart, which a CPU core finishes in minutes.

What is changed is what costs time: a slim model of the same family, 10,000 images, 10 epochs. What decides
how f acts (rule, rate, decay, momentum, α and β, placement) stays.
"""

from __future__ import annotations

from copy import deepcopy

from gaf.lab.engine.config import RunConfig

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
