"""Models for a laptop: plain perceptrons and two small CNNs.

The perceptrons have no shortcut and no norm. With a sigmoid and some depth, gradients vanish.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.lab.tasks.classification.layers import ConvNet, is_count

ACTIVATIONS = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu}


class MLP(nn.Module):
    """Linear layers with one activation, on flattened images, with torch's default initialisation.

    Args:
        classes: of the data.
        in_channels: of the images.
        size: height and width of the images.
        depth: how many hidden layers.
        width: how many numbers in each of them.
        activation: "sigmoid", "tanh" or "relu". The derivative of the sigmoid is at most 1/4, so the
            gradient of the first layer shrinks by that factor, and by the weights', with each layer.
    """

    def __init__(
        self,
        *,
        classes: int,
        in_channels: int = 1,
        size: int = 8,
        depth: int = 3,
        width: int = 64,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        for name, value in (("depth", depth), ("width", width), ("size", size)):
            if not is_count(value):
                raise GafError(f"{name} of an mlp must be a whole number above 0, got {value!r}")
        if activation not in ACTIVATIONS:
            hint = did_you_mean(str(activation), ACTIVATIONS)
            raise GafError(f"unknown activation {activation!r} for an mlp{hint}")
        self.activation = activation
        sizes = [in_channels * size * size, *[width] * depth]
        self.hidden = nn.ModuleList(
            nn.Linear(fan_in, fan_out) for fan_in, fan_out in pairwise(sizes)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = images.flatten(1)
        for layer in self.hidden:
            x = ACTIVATIONS[self.activation](layer(x))
        return self.head(x)


def digits_cnn(*, classes: int, in_channels: int = 1) -> nn.Module:
    """Three convolutions for 8 x 8 digits, without batch norm.

    Each sample is computed by itself, so batches can be cut in any way without changing the gradient.
    """
    stem = nn.Sequential(OrderedDict(conv=nn.Conv2d(in_channels, 16, 3, padding=1), relu=nn.ReLU()))
    stages = OrderedDict[str, nn.Module](
        conv1=nn.Conv2d(16, 32, 3, padding=1),
        relu1=nn.ReLU(),
        pool=nn.MaxPool2d(2),
        conv2=nn.Conv2d(32, 64, 3, padding=1),
        relu2=nn.ReLU(),
    )
    return ConvNet(stem, stages, 64, classes)


def fashion_cnn(*, classes: int, in_channels: int = 1) -> nn.Module:
    """Three convolutions of stride 2 for 28 x 28 images, without batch norm: cheap to train on a core."""
    stem = nn.Sequential(
        OrderedDict(conv=nn.Conv2d(in_channels, 16, 5, stride=2, padding=2), relu=nn.ReLU())
    )
    stages = OrderedDict[str, nn.Module](
        conv1=nn.Conv2d(16, 32, 3, stride=2, padding=1),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(32, 64, 3, stride=2, padding=1),
        relu2=nn.ReLU(),
    )
    return ConvNet(stem, stages, 64, classes)
