"""Models for a laptop: the thin CIFAR residual networks of He et al. (2016, section 4.2) and a digits CNN."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gaf.lab.tasks.classification.models.layers import ConvNet, conv_norm, initialise_he

WIDTHS = (16, 32, 64)


class ThinBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut without parameters (option A of the paper).

    Where the block halves height and width and widens, the shortcut takes every second pixel and fills
    the new channels with zeros.
    """

    def __init__(self, fan_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.more_channels = width - fan_in
        self.conv1 = conv_norm(fan_in, width, 3, stride)
        self.conv2 = conv_norm(width, width, 3, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(self.conv1(x))
        if self.stride > 1 or self.more_channels:
            x = x[:, :, :: self.stride, :: self.stride]
            x = F.pad(x, (0, 0, 0, 0, 0, self.more_channels))
        return torch.relu(x + y)


def thin_resnet_cifar(depth: int, *, classes: int, in_channels: int = 3) -> nn.Module:
    """The residual network of 6n + 2 layers: 16, 32 and 64 channels, n blocks each."""
    stem = conv_norm(in_channels, WIDTHS[0], 3)
    channels = WIDTHS[0]
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, width in enumerate(WIDTHS):
        stage = nn.Sequential()
        for j in range((depth - 2) // 6):
            stage.append(ThinBlock(channels, width, 2 if i > 0 and j == 0 else 1))
            channels = width
        stages[f"stage{i + 1}"] = stage
    return initialise_he(ConvNet(stem, stages, channels, classes))


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
