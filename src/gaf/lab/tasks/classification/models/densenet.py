"""Densely connected networks for CIFAR (Huang et al., 2017): each layer sees all maps before it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gaf.lab.tasks.classification.models.layers import ConvNet, chosen_depths, conv, scaled

DEPTHS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32)}


class DenseLayer(nn.Module):
    """A bottleneck of 4k channels that adds k maps to those it is given."""

    def __init__(self, fan_in: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(fan_in)
        self.conv1 = conv(fan_in, 4 * growth, 1)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = conv(4 * growth, growth, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(torch.relu(self.norm1(x)))
        y = self.conv2(torch.relu(self.norm2(y)))
        return torch.cat((x, y), 1)


def _transition(fan_in: int, fan_out: int) -> nn.Sequential:
    """Half the maps, at half the height and width."""
    layers = OrderedDict[str, nn.Module](
        norm=nn.BatchNorm2d(fan_in), relu=nn.ReLU(inplace=True), conv=conv(fan_in, fan_out, 1)
    )
    layers["pool"] = nn.AvgPool2d(2)
    return nn.Sequential(layers)


def densenet_cifar(
    depth: int,
    growth: int,
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """DenseNet-BC of depth 121 or 169, compression 0.5, with a 3 x 3 stem of 2k maps.

    Args:
        depth: 121 or 169.
        growth: k, the maps that each layer adds.
        classes: of the data.
        in_channels: of the images.
        width: the growth times this.
        depths: layers in each of the four dense blocks, instead of the published ones.
    """
    growth = scaled(growth, width)
    channels = 2 * growth
    stem = conv(in_channels, channels, 3)
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, layers in enumerate(chosen_depths(DEPTHS[depth], depths)):
        if i > 0:
            stages[f"transition{i}"] = _transition(channels, channels // 2)
            channels //= 2
        stages[f"stage{i + 1}"] = nn.Sequential(
            *(DenseLayer(channels + growth * j, growth) for j in range(layers))
        )
        channels += growth * layers
    stages["norm"] = nn.BatchNorm2d(channels)
    stages["relu"] = nn.ReLU(inplace=True)
    return ConvNet(stem, stages, channels, classes)
