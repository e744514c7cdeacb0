"""Trainings beyond images, for a minute or two of a core: a text, and an agent that learns by trial.

The paper's outlook names both kinds and gives no settings. Learning rates were found by hand, without f.
"""

from __future__ import annotations

from collections.abc import Iterator

from gaf.lab.engine.config import OptimizerConfig, RunConfig, ScheduleConfig, TaskConfig
from gaf.lab.study.recipes.base import with_activation
from gaf.lab.study.recipes.laptop import PRESETS
from gaf.lab.study.recipes.tables import ADAM_PLACEMENTS, SGDM_PLACEMENTS, Recipe, with_controls

GROUP = "Beyond vision"


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


def beyond_recipes() -> Iterator[Recipe]:
    """Each training above, with the presets at each placement and their controls."""
    for base, placements in (
        (text_transformer(), SGDM_PLACEMENTS),
        (text_transformer_adamw(), ADAM_PLACEMENTS),
        (cartpole_mlp(), SGDM_PLACEMENTS),
        (cartpole_mlp_adam(), ADAM_PLACEMENTS),
    ):
        configs = [with_activation(base, f, where) for f in PRESETS for where in placements]
        yield from with_controls(Recipe(each, GROUP) for each in (base, *configs))
