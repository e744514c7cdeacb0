"""The models of the paper and small ones for a laptop, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.lab.tasks.classification.densenet import densenet_cifar, dpn26_cifar
from gaf.lab.tasks.classification.googlenet import googlenet_cifar
from gaf.lab.tasks.classification.layers import is_count
from gaf.lab.tasks.classification.resnet import (
    preact_resnet_cifar,
    regnetx_200mf_cifar,
    resnet,
    thin_resnet_cifar,
)
from gaf.lab.tasks.classification.small import MLP, digits_cnn, fashion_cnn
from gaf.lab.tasks.detection.ssd import SSD300
from gaf.lab.tasks.language.transformer import Transformer

MODELS: dict[str, Callable[..., nn.Module]] = {
    "resnet8-cifar": partial(thin_resnet_cifar, 8),
    "resnet18-cifar": partial(resnet, 18, "cifar", False),
    "resnet20-cifar": partial(thin_resnet_cifar, 20),
    "resnet34-cifar": partial(resnet, 34, "cifar", False),
    "resnet50-cifar": partial(resnet, 50, "cifar", False),
    "preact-resnet34-cifar": partial(preact_resnet_cifar, 34),
    "preact-resnet50-cifar": partial(preact_resnet_cifar, 50),
    "densenet121-cifar": partial(densenet_cifar, 121, 12),
    "densenet169-cifar": partial(densenet_cifar, 169, 32),
    "dpn26-cifar": dpn26_cifar,
    "googlenet-cifar": googlenet_cifar,
    "regnetx-200mf-cifar": regnetx_200mf_cifar,
    "resnet18-imagenet": partial(resnet, 18, "imagenet", False),
    "resnet34-imagenet": partial(resnet, 34, "imagenet", False),
    "resnet50-imagenet": partial(resnet, 50, "imagenet", False),
    "se-resnet18-imagenet": partial(resnet, 18, "imagenet", True),
    "se-resnet34-imagenet": partial(resnet, 34, "imagenet", True),
    "se-resnet50-imagenet": partial(resnet, 50, "imagenet", True),
    "digits-cnn": digits_cnn,
    "fashion-cnn": fashion_cnn,
    "mlp": MLP,
}
# They give classes and places of boxes, so they go with a detection task and no other.
DETECTORS: dict[str, Callable[..., nn.Module]] = {"ssd300": SSD300}
# They guess the next element at each place of a sequence, and go with a language task.
DECODERS: dict[str, Callable[..., nn.Module]] = {"transformer": Transformer}

# A model whose weights or outputs change for the same seed gets the next number; the others have 1.
VERSIONS: dict[str, int] = {}


def names() -> list[str]:
    """The names of the models that classify; :func:`build` also takes ``DETECTORS`` and ``DECODERS``."""
    return list(MODELS)


def version(name: str) -> int:
    """The number that a model raises when the same seed gives other weights or outputs."""
    return VERSIONS.get(name, 1)


def options(name: str) -> tuple[str, ...]:
    """The options of a model beside ``classes`` and ``in_channels``."""
    parameters = inspect.signature(_maker(name)).parameters
    return tuple(option for option in parameters if option not in ("classes", "in_channels"))


def build(name: str, *, classes: int, in_channels: int = 3, **chosen: Any) -> nn.Module:
    """A new model, initialised from torch's random state.

    Args:
        name: one of :func:`names`.
        classes: how many classes the data has.
        in_channels: of the images: 3 for colour, 1 for grey. A decoder has none.
        **chosen: the model's own options, see :func:`options`.

    Example:
        >>> model = build("resnet8-cifar", classes=100)
        >>> sum(p.numel() for p in model.parameters())
        81140
    """
    known = options(name)
    for option in chosen:
        if option not in known:
            hint = did_you_mean(option, known) or "; it has none"
            raise GafError(f"unknown option {option!r} of the model {name}{hint}")
    parameters = inspect.signature(_maker(name)).parameters
    for option in known:
        if option not in chosen and parameters[option].default is inspect.Parameter.empty:
            raise GafError(f"the model {name} needs the option {option!r}")
    for what, number in (("classes", classes), ("in_channels", in_channels)):
        if not is_count(number):
            raise GafError(f"{what} of a model must be a whole number above 0, got {number!r}")
    shape = {} if name in DECODERS else {"in_channels": in_channels}
    return _maker(name)(classes=classes, **shape, **chosen)


def _maker(name: str) -> Callable[..., nn.Module]:
    known = {**MODELS, **DETECTORS, **DECODERS}
    if name not in known:
        raise GafError(f"unknown model {name!r}{did_you_mean(name, known)}")
    return known[name]
