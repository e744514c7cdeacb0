"""What the convolutional models share: convolutions, their batch norms, squeeze-and-excite, the frame."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError


def conv(
    fan_in: int, fan_out: int, size: int, stride: int = 1, groups: int = 1, bias: bool = False
) -> nn.Conv2d:
    """A convolution that keeps height and width at stride 1."""
    return nn.Conv2d(fan_in, fan_out, size, stride, size // 2, groups=groups, bias=bias)


def conv_norm(
    fan_in: int,
    fan_out: int,
    size: int,
    stride: int = 1,
    groups: int = 1,
    *,
    relu: bool = True,
    bias: bool = False,
) -> nn.Sequential:
    """A convolution and its batch norm, then a ReLU unless the block adds something first."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers["conv"] = conv(fan_in, fan_out, size, stride, groups, bias)
    layers["norm"] = nn.BatchNorm2d(fan_out)
    if relu:
        layers["relu"] = nn.ReLU(inplace=True)
    return nn.Sequential(layers)


def projection(fan_in: int, fan_out: int, stride: int) -> nn.Module:
    """The shortcut of a residual block: the input itself wherever the shapes agree."""
    if stride == 1 and fan_in == fan_out:
        return nn.Identity()
    return conv_norm(fan_in, fan_out, 1, stride, relu=False)


class SqueezeExcite(nn.Module):
    """Scale each channel by a number in (0, 1) computed from all channels' means (Hu et al., 2018)."""

    def __init__(self, channels: int, reduction: int = 16) -> None:
        super().__init__()
        inner = max(4, channels // reduction)  # one unit alone would often be dead behind its ReLU
        self.squeeze = nn.Linear(channels, inner)
        self.excite = nn.Linear(inner, channels)

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3))))))
        return x * scale[:, :, None, None]


class ConvNet(nn.Module):
    """The frame of every convolutional model: stem, stages, global mean, one linear layer.

    Args:
        stem: from the image to the first feature maps.
        stages: the rest of the feature maps; the names become those of the state.
        channels: of the last feature map.
        classes: how many numbers come out.
    """

    def __init__(
        self, stem: nn.Module, stages: Mapping[str, nn.Module], channels: int, classes: int
    ) -> None:
        super().__init__()
        self.stem = stem
        self.stages = nn.Sequential(OrderedDict(stages))
        self.head = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.stages(self.stem(images)).mean((2, 3)))


def stacked(
    stem: nn.Module,
    channels: int,
    depths: Sequence[int],
    block: Callable[[int, int, int], nn.Module],
    classes: int,
) -> ConvNet:
    """Stages of blocks, each of which gets what the one before gives.

    Args:
        stem: from the image to the first feature maps.
        channels: of these.
        depths: blocks in each stage.
        block: makes one from its stage, its place in it and its input channels; it has a ``fan_out``.
        classes: how many numbers come out.
    """
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for stage, count in enumerate(depths):
        blocks = nn.Sequential()
        for place in range(count):
            blocks.append(made := block(stage, place, channels))
            channels = made.fan_out  # type: ignore[assignment]
        stages[f"stage{stage + 1}"] = blocks
    return ConvNet(stem, stages, channels, classes)


def halving(stage: int, place: int) -> int:
    """The stride of a block: each stage but the first begins with half the height and width."""
    return 2 if stage > 0 and place == 0 else 1


def initialise_he(model: nn.Module) -> nn.Module:
    """He's normal initialisation by the fan-out, which keeps the variance of gradients through ReLUs."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def scaled(channels: int, width: float, multiple: int = 1) -> int:
    """``channels`` times ``width``, at least one, rounded to a multiple."""
    if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < math.inf:
        raise GafError(f"width must be a number above 0, got {width!r}; 1 is the published model")
    return max(1, round(channels * width / multiple)) * multiple


def chosen_depths(published: Sequence[int], depths: Sequence[int] | None) -> tuple[int, ...]:
    """Blocks in each stage: the published ones, or as many numbers of the user's."""
    if depths is None:
        return tuple(published)
    listed = isinstance(depths, list | tuple)
    if not listed or len(depths) != len(published) or not all(map(is_count, depths)):
        raise GafError(
            f"depths must be {len(published)} whole numbers above 0, got {depths!r}; "
            f"the published model has {list(published)}"
        )
    return tuple(depths)


def is_count(value: object) -> bool:
    """Whether it is a whole number above 0, as a config may hold anything."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
