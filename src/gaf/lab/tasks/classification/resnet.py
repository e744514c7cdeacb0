"""Residual networks: as published for ImageNet and CIFAR, pre-activated, in groups, and thin for a laptop.

The CIFAR networks of depth 18, 34 and 50 (He et al., 2016) are the ImageNet ones with a 3 x 3 stem and no
pooling, as the CIFAR literature builds them. The stride of a bottleneck is on its 3 x 3 convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gaf.lab.tasks.classification.layers import (
    SqueezeExcite,
    chosen_depths,
    conv,
    conv_norm,
    halving,
    initialise_he,
    projection,
    scaled,
    stacked,
)

WIDTHS = (64, 128, 256, 512)
DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
THIN_WIDTHS = (16, 32, 64)

REGNET_DEPTHS, REGNET_WIDTHS = (1, 1, 4, 7), (24, 56, 152, 368)
REGNET_STRIDES = (1, 1, 2, 2)  # two halvings: a 32 x 32 image ends as 8 x 8
GROUP_WIDTH = 8


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


def resnet(
    depth: int,
    images: str,
    squeeze: bool,
    /,
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """ResNet-18, -34 or -50.

    Args:
        depth: 18, 34 or 50.
        images: "cifar", small ones, with torch's default initialisation; "imagenet", photographs, with He's.
        squeeze: a squeeze-and-excite gate at the end of each block (Hu et al., 2018).
        classes: of the data.
        in_channels: of the images.
        width: all channels times this.
        depths: blocks in each of the four stages, instead of the published ones.
    """
    channels = scaled(WIDTHS[0], width)
    if images == "cifar":
        stem = conv_norm(in_channels, channels, 3)
    else:
        stem = conv_norm(in_channels, channels, 7, 2)
        stem.add_module("pool", nn.MaxPool2d(3, 2, 1))
    kind = Bottleneck if depth >= 50 else BasicBlock

    def block(stage: int, place: int, fan_in: int) -> nn.Module:
        return kind(fan_in, scaled(WIDTHS[stage], width), halving(stage, place), squeeze)

    model = stacked(stem, channels, chosen_depths(DEPTHS[depth], depths), block, classes)
    return model if images == "cifar" else initialise_he(model)


def regnetx_200mf_cifar(
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """RegNetX-200MF (Radosavovic et al., 2020): bottlenecks of one width with grouped convolutions.

    The 3 x 3 stem has 64 channels.
    """
    channels = scaled(64, width)
    stem = conv_norm(in_channels, channels, 3)

    def block(stage: int, place: int, fan_in: int) -> nn.Module:
        inner = scaled(REGNET_WIDTHS[stage], width, multiple=GROUP_WIDTH)
        stride = REGNET_STRIDES[stage] if place == 0 else 1
        return Bottleneck(fan_in, inner, stride, expansion=1, groups=inner // GROUP_WIDTH)

    return stacked(stem, channels, chosen_depths(REGNET_DEPTHS, depths), block, classes)


class PreActBlock(nn.Module):
    """Convolutions of given sizes, each after a batch norm and a ReLU, beside a shortcut.

    Args:
        channels: at the input and after each convolution.
        sizes: of the kernels; the first 3 x 3 one takes the stride.
        stride: of the block.
    """

    def __init__(self, channels: Sequence[int], sizes: Sequence[int], stride: int) -> None:
        super().__init__()
        self.fan_out = channels[-1]
        strides = [1] * len(sizes)
        strides[sizes.index(3)] = stride
        self.norms = nn.ModuleList(nn.BatchNorm2d(fan_in) for fan_in in channels[:-1])
        self.convs = nn.ModuleList(map(conv, channels[:-1], channels[1:], sizes, strides))
        same = stride == 1 and channels[0] == channels[-1]
        self.shortcut = None if same else conv(channels[0], channels[-1], 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        for i, (norm, convolution) in enumerate(zip(self.norms, self.convs, strict=True)):
            x = torch.relu(norm(x))
            if i == 0 and self.shortcut is not None:  # a projection sees the activated input
                shortcut = self.shortcut(x)
            x = convolution(x)
        return x + shortcut


def preact_resnet_cifar(
    depth: int,
    /,
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """PreActResNet-34 or -50 (He et al., 2016b): norm and ReLU before each convolution.

    There is no norm after the last block, as the CIFAR literature builds it.
    """
    channels = scaled(WIDTHS[0], width)
    stem = conv(in_channels, channels, 3)

    def block(stage: int, place: int, fan_in: int) -> nn.Module:
        inner = scaled(WIDTHS[stage], width)
        basic, bottleneck = ((inner, inner), (3, 3)), ((inner, inner, 4 * inner), (1, 3, 1))
        inside, sizes = bottleneck if depth >= 50 else basic
        return PreActBlock((fan_in, *inside), sizes, halving(stage, place))

    return stacked(stem, channels, chosen_depths(DEPTHS[depth], depths), block, classes)


class ThinBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut without parameters (option A of the paper).

    Where the block halves height and width and widens, the shortcut takes every second pixel and fills
    the new channels with zeros.
    """

    def __init__(self, fan_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.fan_out, self.stride = width, stride
        self.more_channels = width - fan_in
        self.conv1 = conv_norm(fan_in, width, 3, stride)
        self.conv2 = conv_norm(width, width, 3, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(self.conv1(x))
        if self.stride > 1 or self.more_channels:
            x = x[:, :, :: self.stride, :: self.stride]
            x = F.pad(x, (0, 0, 0, 0, 0, self.more_channels))
        return torch.relu(x + y)


def thin_resnet_cifar(depth: int, /, *, classes: int, in_channels: int = 3) -> nn.Module:
    """The residual network of 6n + 2 layers (section 4.2): 16, 32 and 64 channels, n blocks each."""

    def block(stage: int, place: int, fan_in: int) -> nn.Module:
        return ThinBlock(fan_in, THIN_WIDTHS[stage], halving(stage, place))

    stem = conv_norm(in_channels, THIN_WIDTHS[0], 3)
    depths = [(depth - 2) // 6] * len(THIN_WIDTHS)
    return initialise_he(stacked(stem, THIN_WIDTHS[0], depths, block, classes))
