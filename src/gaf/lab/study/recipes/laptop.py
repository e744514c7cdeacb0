"""Trainings that are in no table of the paper and take seconds to minutes on a laptop.

Learning rates were found by hand: each baseline trains, except the deep sigmoid perceptron, which is here
because it does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from gaf.lab.engine.config import OptimizerConfig, RunConfig, ScheduleConfig, TaskConfig
from gaf.lab.study.recipes.base import cifar, with_activation
from gaf.lab.study.recipes.small import BATCH, on_a_core, some_images
from gaf.lab.study.recipes.tables import SGDM_PLACEMENTS, Recipe, with_controls

GROUP = "Laptop"
PRESETS = ("arctan(0.1, 20)", "arctan(0.2, 10)", "tanh(0.1, 20)", "log(0.1, 20)")
# Nearly the sign of each gradient above 1e-5. The presets only double what has vanished.
STEEP = "arctan(0.01, 100000)"
SGD_PLACEMENTS = ("gradient", "update")  # without momentum there is no velocity to act on


def digits_cnn() -> RunConfig:
    """SGDM and three convolutions on 8 x 8 digits."""
    config = RunConfig(
        name="digits-cnn-sgdm",
        task=TaskConfig(data="digits", model="digits-cnn"),
        optimizer=OptimizerConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4),
        schedule=ScheduleConfig(name="cosine"),
        epochs=20,
        batch_size=64,
    )
    return on_a_core(config)


def digits_deep_mlp() -> RunConfig:
    """Plain SGD and a perceptron of four sigmoid layers on digits: the gradient vanishes.

    It stays at chance without f and with the presets; a steep f trains it.
    """
    options = {"depth": 4, "width": 64, "activation": "sigmoid"}
    return digits_cnn().model_copy(
        update={
            "name": "digits-deep-mlp-sgd",
            "task": TaskConfig(data="digits", model="mlp", model_options=options),
            "optimizer": OptimizerConfig(name="sgd", lr=0.5),
            "epochs": 30,
        }
    )


def cifar100_resnet8() -> RunConfig:
    """SGDM and ResNet-8 on 10,000 images of CIFAR-100."""
    config = some_images(on_a_core(cifar("cifar100", "resnet8")))
    return config.model_copy(update={"epochs": 15, "batch_size": BATCH})


def cifar10_resnet8() -> RunConfig:
    """SGDM and ResNet-8 on all of CIFAR-10.

    In so few epochs the rate changes at each step: by epoch it would go down in three stairs.
    """
    config = on_a_core(cifar("cifar10", "resnet8"))
    schedule = ScheduleConfig(name="cosine", every="iteration")
    return config.model_copy(update={"schedule": schedule, "epochs": 3, "batch_size": BATCH})


def laptop_recipes() -> Iterator[Recipe]:
    """Each training above, with the presets at each placement and their controls."""
    for base, activations, placements in (
        (digits_cnn(), PRESETS, SGDM_PLACEMENTS),
        (digits_deep_mlp(), (*PRESETS, STEEP), SGD_PLACEMENTS),
        (cifar100_resnet8(), PRESETS, SGDM_PLACEMENTS),
        (cifar10_resnet8(), PRESETS, SGDM_PLACEMENTS),
    ):
        configs = [with_activation(base, f, where) for f in activations for where in placements]
        yield from with_controls(Recipe(each, GROUP) for each in (base, *configs))
