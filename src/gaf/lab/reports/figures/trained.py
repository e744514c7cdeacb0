"""The small trainings that Figures 3 and 5 are drawn of: seconds on digits, the same numbers each time.

What trains is imported when it is needed: the other figures do without it.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gaf.lab.engine.config import RunConfig
    from gaf.lab.study.landscape import Curve, Reached
    from gaf.lab.study.tune.probe import Probe

EPOCHS = 8
SAMPLES = 128


def _cnn() -> RunConfig:
    from gaf.lab.study import recipes

    return recipes.get("digits-cnn-sgdm").model_copy(update={"epochs": EPOCHS})


def _mlp() -> RunConfig:
    from gaf.lab.engine.config import TaskConfig

    options = {"depth": 3, "width": 64, "activation": "tanh"}
    task = TaskConfig(data="digits", model="mlp", model_options=options)
    return _cnn().model_copy(update={"name": "digits-mlp-sgdm", "task": task})


def _deep() -> RunConfig:
    from gaf.lab.study.recipes.laptop import hard_case

    return hard_case().model_copy(update={"epochs": EPOCHS})


MODELS = {"digits CNN": _cnn, "digits MLP": _mlp}
PROBED = {"digits CNN": _cnn, "deep sigmoid MLP": _deep}


@cache
def _reached(name: str) -> Reached:
    from gaf.lab.engine.run import train
    from gaf.lab.study.landscape import reached

    quiet = {"monitor_every": 0, "evaluate_every": 0, "checkpoint_every": 10**9}
    config = MODELS[name]().model_copy(update=quiet)
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder))
        return reached(Path(folder), config)


@cache
def near_optimum(name: str, radius: float) -> Curve:
    """The curve around the end of a training."""
    from gaf.lab.study.landscape import curve, training_loss

    at = _reached(name)
    return curve(at.model, training_loss(at.task, SAMPLES), radius=radius)


@cache
def whole_probe(name: str) -> Probe:
    """A probe that lasts a whole training."""
    from gaf.lab.study.tune.probe import probe

    return probe(PROBED[name](), steps=10**9)
