"""Dual path networks for CIFAR (Chen et al., 2017): a residual path and a dense path side by side."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gaf.lab.tasks.classification.models.layers import ConvNet, chosen_depths, conv_norm, scaled

GROUPS = 32
DEPTHS = (2, 2, 2, 2)
INNER = (96, 192, 384, 768)  # channels of the grouped convolution
RESIDUAL = (256, 512, 1024, 2048)  # channels of the residual path
GROWTH = (16, 32, 24, 128)  # channels that each block adds to the dense path


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
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, blocks in enumerate(chosen_depths(DEPTHS, depths)):
        inner = INNER[i] // GROUPS * groups
        residual, growth = scaled(RESIDUAL[i], width), scaled(GROWTH[i], width)
        stage = nn.Sequential()
        for j in range(blocks):
            stride = 2 if i > 0 and j == 0 else 1
            stage.append(
                DualPathBlock(channels, inner, residual, growth, groups, stride, project=j == 0)
            )
            channels = residual + (2 + j) * growth  # the first block's projection brings one growth
        stages[f"stage{i + 1}"] = stage
    return ConvNet(stem, stages, channels, classes)
