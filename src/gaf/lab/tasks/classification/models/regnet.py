"""RegNetX for CIFAR (Radosavovic et al., 2020): bottlenecks of one width with grouped convolutions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from gaf.lab.tasks.classification.models.layers import ConvNet, chosen_depths, conv_norm, scaled
from gaf.lab.tasks.classification.models.resnet import Bottleneck

GROUP_WIDTH = 8
DEPTHS = (1, 1, 4, 7)
WIDTHS = (24, 56, 152, 368)
STRIDES = (1, 1, 2, 2)  # two halvings: a 32 x 32 image ends as 8 x 8


def regnetx_200mf_cifar(
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """RegNetX-200MF with a 3 x 3 stem of 64 channels."""
    channels = scaled(64, width)
    stem = conv_norm(in_channels, channels, 3)
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, blocks in enumerate(chosen_depths(DEPTHS, depths)):
        inner = scaled(WIDTHS[i], width, multiple=GROUP_WIDTH)
        stage = nn.Sequential()
        for j in range(blocks):
            stride = STRIDES[i] if j == 0 else 1
            stage.append(
                Bottleneck(channels, inner, stride, expansion=1, groups=inner // GROUP_WIDTH)
            )
            channels = inner
        stages[f"stage{i + 1}"] = stage
    return ConvNet(stem, stages, channels, classes)
