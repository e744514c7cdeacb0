"""GoogLeNet for CIFAR (Szegedy et al., 2015): inception blocks with batch norm, without side exits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.lab.tasks.classification.layers import ConvNet, chosen_depths, conv_norm, scaled

# The convolutions keep the bias that the batch norm after them makes idle: the published counts have it.
_conv = partial(conv_norm, bias=True)


class Branches(NamedTuple):
    """Channels of an inception block: what each branch gives, and what two of them reduce to first."""

    one: int
    reduce3: int
    three: int
    reduce5: int
    five: int
    pool: int

    def slim(self, width: float) -> Branches:
        """The same at another width."""
        return Branches(*(scaled(channels, width) for channels in self))

    @property
    def total(self) -> int:
        """Channels that come out."""
        return self.one + self.three + self.five + self.pool


STAGES = (
    (Branches(64, 96, 128, 16, 32, 32), Branches(128, 128, 192, 32, 96, 64)),
    (
        Branches(192, 96, 208, 16, 48, 64),
        Branches(160, 112, 224, 24, 64, 64),
        Branches(128, 128, 256, 24, 64, 64),
        Branches(112, 144, 288, 32, 64, 64),
        Branches(256, 160, 320, 32, 128, 128),
    ),
    (Branches(256, 160, 320, 32, 128, 128), Branches(384, 192, 384, 48, 128, 128)),
)


class Inception(nn.Module):
    """Four branches beside each other; the 5 x 5 one is made of two 3 x 3 convolutions."""

    def __init__(self, fan_in: int, channels: Branches) -> None:
        super().__init__()
        c = channels
        self.one = _conv(fan_in, c.one, 1)
        self.three = nn.Sequential(_conv(fan_in, c.reduce3, 1), _conv(c.reduce3, c.three, 3))
        self.five = nn.Sequential(
            _conv(fan_in, c.reduce5, 1), _conv(c.reduce5, c.five, 3), _conv(c.five, c.five, 3)
        )
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), _conv(fan_in, c.pool, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((self.one(x), self.three(x), self.five(x), self.pool(x)), 1)


def googlenet_cifar(
    *,
    classes: int,
    in_channels: int = 3,
    width: float = 1.0,
    depths: Sequence[int] | None = None,
) -> nn.Module:
    """GoogLeNet with a 3 x 3 stem; ``depths`` takes the first blocks of each of the three stages."""
    published = tuple(map(len, STAGES))
    depths = chosen_depths(published, depths)
    if any(depth > most for depth, most in zip(depths, published, strict=True)):
        raise GafError(f"depths can be at most {list(published)} for GoogLeNet, got {list(depths)}")
    channels = scaled(192, width)
    stem = _conv(in_channels, channels, 3)
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, blocks in enumerate(depths):
        if i > 0:
            stages[f"pool{i}"] = nn.MaxPool2d(3, 2, 1)
        stage = nn.Sequential()
        for published_branches in STAGES[i][:blocks]:
            branches = published_branches.slim(width)
            stage.append(Inception(channels, branches))
            channels = branches.total
        stages[f"stage{i + 1}"] = stage
    return ConvNet(stem, stages, channels, classes)
