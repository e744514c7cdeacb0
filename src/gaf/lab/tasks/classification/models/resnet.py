"""Residual networks (He et al., 2016), also with squeeze-and-excite: for ImageNet and for CIFAR.

The CIFAR networks of depth 18, 34 and 50 are the ImageNet ones with a 3 x 3 stem and no pooling, as the
CIFAR literature builds them. The stride of a bottleneck is on its 3 x 3 convolution.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gaf.lab.tasks.classification.models.layers import (
    ConvNet,
    SqueezeExcite,
    chosen_depths,
    conv_norm,
    initialise_he,
    projection,
    scaled,
)

WIDTHS = (64, 128, 256, 512)
DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, fan_in: int, width: int, stride: int, squeeze: bool = False) -> None:
        super().__init__()
        self.fan_out = width
        self.conv1 = conv_norm(fan_in, width, 3, stride)
        self.conv2 = conv_norm(width, width, 3, relu=False)
        self.gate = SqueezeExcite(width) if squeeze else nn.Identity()
        self.shortcut = projection(fan_in, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.gate(self.conv2(self.conv1(x))) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1 x 1 down to ``width`` channels, 3 x 3 in groups, 1 x 1 up to ``expansion`` times as many."""

    def __init__(
        self,
        fan_in: int,
        width: int,
        stride: int,
        squeeze: bool = False,
        *,
        expansion: int = 4,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.fan_out = fan_out = expansion * width
        self.conv1 = conv_norm(fan_in, width, 1)
        self.conv2 = conv_norm(width, width, 3, stride, groups)
        self.conv3 = conv_norm(width, fan_out, 1, relu=False)
        self.gate = SqueezeExcite(fan_out) if squeeze else nn.Identity()
        self.shortcut = projection(fan_in, fan_out, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.gate(self.conv3(self.conv2(self.conv1(x))))
        return torch.relu(y + self.shortcut(x))


def resnet_cifar(
    depth: int,
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """ResNet-18, -34 or -50 for small images, with torch's default initialisation.

    Args:
        depth: 18, 34 or 50.
        classes: of the data.
        in_channels: of the images.
        width: all channels times this.
        depths: blocks in each of the four stages, instead of the published ones.
    """
    stem = conv_norm(in_channels, scaled(WIDTHS[0], width), 3)
    return _resnet(stem, depth, classes, width, depths)


def resnet_imagenet(
    depth: int,
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """ResNet-18, -34 or -50 for photographs, with He's initialisation."""
    stem = _imagenet_stem(in_channels, width)
    return initialise_he(_resnet(stem, depth, classes, width, depths))


def se_resnet_imagenet(
    depth: int,
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """The same with a squeeze-and-excite gate at the end of each block (Hu et al., 2018)."""
    stem = _imagenet_stem(in_channels, width)
    return initialise_he(_resnet(stem, depth, classes, width, depths, squeeze=True))


def _imagenet_stem(in_channels: int, width: float) -> nn.Sequential:
    stem = conv_norm(in_channels, scaled(WIDTHS[0], width), 7, 2)
    stem.add_module("pool", nn.MaxPool2d(3, 2, 1))
    return stem


def _resnet(
    stem: nn.Module,
    depth: int,
    classes: int,
    width: float,
    depths: Sequence[int] | None,
    squeeze: bool = False,
) -> ConvNet:
    block = Bottleneck if depth >= 50 else BasicBlock
    channels = scaled(WIDTHS[0], width)
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, blocks in enumerate(chosen_depths(DEPTHS[depth], depths)):
        stage = nn.Sequential()
        for j in range(blocks):
            stride = 2 if i > 0 and j == 0 else 1
            inner = scaled(WIDTHS[i], width)
            stage.append(built := block(channels, inner, stride, squeeze))
            channels = built.fan_out
        stages[f"stage{i + 1}"] = stage
    return ConvNet(stem, stages, channels, classes)
