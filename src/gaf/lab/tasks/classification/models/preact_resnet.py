"""Pre-activation residual networks for CIFAR (He et al., 2016b): norm and ReLU before each convolution."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gaf.lab.tasks.classification.models.layers import ConvNet, chosen_depths, conv, scaled
from gaf.lab.tasks.classification.models.resnet import DEPTHS, WIDTHS


class PreActBlock(nn.Module):
    """Convolutions of given sizes, each after a batch norm and a ReLU, beside a shortcut.

    Args:
        channels: at the input and after each convolution.
        sizes: of the kernels; the first 3 x 3 one takes the stride.
        stride: of the block.
    """

    def __init__(self, channels: Sequence[int], sizes: Sequence[int], stride: int) -> None:
        super().__init__()
        strides = [1] * len(sizes)
        strides[sizes.index(3)] = stride
        self.norms = nn.ModuleList(nn.BatchNorm2d(fan_in) for fan_in in channels[:-1])
        self.convs = nn.ModuleList(
            conv(fan_in, fan_out, size, step)
            for fan_in, fan_out, size, step in zip(
                channels[:-1], channels[1:], sizes, strides, strict=True
            )
        )
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
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """PreActResNet-34 or -50, without a norm after the last block, as the CIFAR literature builds it."""
    channels = scaled(WIDTHS[0], width)
    stem = conv(in_channels, channels, 3)
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, blocks in enumerate(chosen_depths(DEPTHS[depth], depths)):
        inner = scaled(WIDTHS[i], width)
        basic, bottleneck = ((inner, inner), (3, 3)), ((inner, inner, 4 * inner), (1, 3, 1))
        inside, sizes = bottleneck if depth >= 50 else basic
        stage = nn.Sequential()
        for j in range(blocks):
            stage.append(PreActBlock((channels, *inside), sizes, 2 if i > 0 and j == 0 else 1))
            channels = inside[-1]
        stages[f"stage{i + 1}"] = stage
    return ConvNet(stem, stages, channels, classes)
