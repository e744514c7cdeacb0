"""Networks for CIFAR whose layers see the maps before them: dense ones, and dual paths.

In a densely connected network (Huang et al., 2017) each layer sees all maps before it; a dual path network
(Chen et al., 2017) has a residual path and a dense path side by side.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gaf.lab.tasks.classification.layers import (
    ConvNet,
    chosen_depths,
    conv,
    conv_norm,
    halving,
    scaled,
    stacked,
)

DEPTHS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32)}
GROUPS = 32
DPN_DEPTHS = (2, 2, 2, 2)
INNER = (96, 192, 384, 768)  # channels of the grouped convolution
RESIDUAL = (256, 512, 1024, 2048)  # channels of the residual path
GROWTH = (16, 32, 24, 128)  # channels that each block adds to the dense path


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


class DualPathBlock(nn.Module):
    """A bottleneck whose first ``residual`` channels are added and whose last ``growth`` are appended."""

    def __init__(
        self,
        fan_in: int,
        inner: int,
        residual: int,
        growth: int,
        groups: int,
        stride: int,
        project: bool,
    ) -> None:
        super().__init__()
        self.residual = residual
        # the first block's projection brings one growth, what a later one is given stays beside its own
        self.fan_out = residual + 2 * growth if project else fan_in + growth
        self.conv1 = conv_norm(fan_in, inner, 1)
        self.conv2 = conv_norm(inner, inner, 3, stride, groups)
        self.conv3 = conv_norm(inner, residual + growth, 1, relu=False)
        self.shortcut: nn.Module = nn.Identity()
        if project:
            self.shortcut = conv_norm(fan_in, residual + growth, 1, stride, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv3(self.conv2(self.conv1(x)))
        x = self.shortcut(x)
        d = self.residual
        return torch.relu(torch.cat((x[:, :d] + y[:, :d], x[:, d:], y[:, d:]), 1))


def dpn26_cifar(
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """DPN-26 with 32 groups; ``width`` thins the number of groups and keeps their size."""
    channels = scaled(64, width)
    stem = conv_norm(in_channels, channels, 3)
    groups = scaled(GROUPS, width)

    def block(stage: int, place: int, fan_in: int) -> nn.Module:
        inner = INNER[stage] // GROUPS * groups
        residual, growth = scaled(RESIDUAL[stage], width), scaled(GROWTH[stage], width)
        stride = halving(stage, place)
        return DualPathBlock(fan_in, inner, residual, growth, groups, stride, project=place == 0)

    return stacked(stem, channels, chosen_depths(DPN_DEPTHS, depths), block, classes)
