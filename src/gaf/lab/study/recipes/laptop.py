"""Trainings that are in no table of the paper and take seconds to minutes on a laptop.

Learning rates were found by hand, without f: each baseline trains, except the deep sigmoid perceptron, which
is here because it does not. Beyond images there are a text, and an agent that learns by trial: the paper's
outlook names both kinds and gives no settings.
"""

from __future__ import annotations

from collections.abc import Iterator

from gaf.lab.engine.config import OptimizerConfig, RunConfig, ScheduleConfig, TaskConfig
from gaf.lab.study.recipes.base import (
    BATCH,
    Recipe,
    cifar,
    on_a_core,
    placements,
    some_images,
    with_activation,
    with_controls,
)

GROUP, BEYOND = "Laptop", "Beyond vision"
PRESETS = ("arctan(0.1, 20)", "arctan(0.2, 10)", "tanh(0.1, 20)", "log(0.1, 20)")
# Nearly the sign of each gradient above 1e-5. The presets only double what has vanished.
STEEP = "arctan(0.01, 100000)"
HARD_TASK = "gaf.lab.tasks.classification.deep_sigmoid:deep_sigmoid"


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


def hard_case() -> RunConfig:
    """What ``gaf tune`` tunes unasked: SGDM and a perceptron of six sigmoid layers on digits.

    Momentum 0.9, lr 0.1, batches of 64, 60 epochs, cosine at each step. It is in no list of recipes.
    """
    return RunConfig(
        name="digits-deep-sigmoid-sgdm",
        task=TaskConfig(kind=HARD_TASK),
        optimizer=OptimizerConfig(name="sgd", lr=0.1, momentum=0.9),
        schedule=ScheduleConfig(name="cosine", every="iteration"),
        epochs=60,
        batch_size=64,
        threads=1,
        evaluate_every=0,
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


def text_transformer() -> RunConfig:
    """SGDM and a character transformer of 2 blocks on Tiny Shakespeare."""
    return RunConfig(
        name="text-transformer-sgdm",
        task=TaskConfig(kind="language", data="text", model="transformer"),
        optimizer=OptimizerConfig(name="sgd", lr=0.1, momentum=0.9),
        schedule=ScheduleConfig(name="cosine"),
        epochs=2,
        batch_size=32,
        threads=1,
    )


def text_transformer_adamw() -> RunConfig:
    """The same by AdamW, which is what transformers are mostly trained by."""
    rule = OptimizerConfig(name="adamw", lr=3e-3, weight_decay=0.1)
    return text_transformer().model_copy(
        update={"name": "text-transformer-adamw", "optimizer": rule}
    )


def cartpole_mlp() -> RunConfig:
    """REINFORCE by SGDM and a perceptron with one hidden layer on CartPole."""
    options = {"depth": 1, "width": 64, "activation": "tanh"}
    return RunConfig(
        name="cartpole-mlp-sgdm",
        task=TaskConfig(
            kind="policy-gradient", data="cartpole", model="mlp", model_options=options
        ),
        optimizer=OptimizerConfig(name="sgd", lr=0.03, momentum=0.9),
        schedule=ScheduleConfig(name="cosine"),
        epochs=20,
        batch_size=16,
        threads=1,
        evaluate_every=5,
    )


def cartpole_mlp_adam() -> RunConfig:
    """The same by Adam."""
    rule = OptimizerConfig(name="adam", lr=0.01)
    return cartpole_mlp().model_copy(update={"name": "cartpole-mlp-adam", "optimizer": rule})


def laptop_recipes() -> Iterator[Recipe]:
    """Each training above, with the presets at each placement and their controls."""
    for group, base, activations in (
        (GROUP, digits_cnn(), PRESETS),
        (GROUP, digits_deep_mlp(), (*PRESETS, STEEP)),
        (GROUP, cifar100_resnet8(), PRESETS),
        (GROUP, cifar10_resnet8(), PRESETS),
        (BEYOND, text_transformer(), PRESETS),
        (BEYOND, text_transformer_adamw(), PRESETS),
        (BEYOND, cartpole_mlp(), PRESETS),
        (BEYOND, cartpole_mlp_adam(), PRESETS),
    ):
        configs = [
            with_activation(base, f, where)
            for f in activations
            for where in placements(base.optimizer)
        ]
        yield from with_controls(Recipe(config, group, base.name) for config in (base, *configs))
