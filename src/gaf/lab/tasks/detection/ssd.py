"""SSD300 (Liu et al., *SSD: Single Shot MultiBox Detector*, 2016) with the VGG-16 base."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.lab.tasks.classification.models import vgg
from gaf.lab.tasks.classification.models.layers import scaled
from gaf.lab.tasks.detection.defaults import GRIDS, default_boxes

# Channels between and after, stride and padding of the layers behind VGG: 10 x 10, 5 x 5, 3 x 3, 1 x 1.
EXTRAS = ((256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0))
SCALE = 20.0  # that the normalised conv4_3 begins with


class L2Norm(nn.Module):
    """Each pixel's channels scaled to a norm of 1, times a learned factor for each channel.

    conv4_3 has larger values than the deeper layers, beside which its boxes are predicted.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((channels,), SCALE))

    def forward(self, x: Tensor) -> Tensor:
        # In float32: in float16 the least norm of 1e-12 would be 0, and a pixel of zeros NaN.
        return nn.functional.normalize(x.float(), dim=1) * self.weight[:, None, None]


class SSD300(nn.Module):
    """From images [B, 3, 300, 300] to the class and the place of each default box.

    Args:
        classes: of the data; the background is added to them.
        in_channels: of the images.
        width: times the published number of channels.
        weights: a local VGG-16 file to begin from; unset: from scratch. Only at the published width.

    Returns of a call: logits [B, 8732, classes + 1], of which 0 is the background, and numbers [B, 8732, 4].
    """

    defaults: Tensor

    def __init__(
        self, classes: int, in_channels: int = 3, *, width: float = 1.0, weights: str | None = None
    ) -> None:
        super().__init__()
        base = vgg.stages(in_channels, width)
        self.base = nn.ModuleDict(base)
        fan_in = scaled(vgg.FC, width)
        sources = [scaled(vgg.STAGES[3][-1], width), fan_in]
        self.norm = L2Norm(sources[0])
        extras = []
        for between, after, stride, padding in EXTRAS:
            inner, fan_out = scaled(between, width), scaled(after, width)
            extras.append(
                nn.Sequential(
                    nn.Conv2d(fan_in, inner, 1),
                    nn.ReLU(inplace=True),
                    nn.Conv2d(inner, fan_out, 3, stride, padding),
                    nn.ReLU(inplace=True),
                )
            )
            sources.append(fan_out)
            fan_in = fan_out
        self.extras = nn.ModuleList(extras)
        self.outputs = classes + 1
        pairs = list(zip(sources, GRIDS, strict=True))
        self.class_heads = nn.ModuleList(
            nn.Conv2d(channels, grid.boxes * self.outputs, 3, padding=1) for channels, grid in pairs
        )
        self.box_heads = nn.ModuleList(
            nn.Conv2d(channels, grid.boxes * 4, 3, padding=1) for channels, grid in pairs
        )
        self.register_buffer("defaults", default_boxes(), persistent=False)
        self._initialise()
        if weights is not None:
            if width != 1 or in_channels != 3:
                raise GafError("weights of VGG-16 fit the published width 1 and colour images only")
            vgg.load(self.base, weights)

    def _initialise(self) -> None:
        """He's normal initialisation in the body, Glorot's uniform one, the authors' choice, in the heads."""
        heads = {*self.class_heads, *self.box_heads}
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                if module in heads:
                    nn.init.xavier_uniform_(module.weight)
                else:
                    nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        logits, numbers = [], []
        heads = zip(self.class_heads, self.box_heads, strict=True)
        for features, (name, place) in zip(self.features(images), heads, strict=True):
            # [B, boxes * n, H, W] -> [B, H * W * boxes, n]
            logits.append(
                name(features).permute(0, 2, 3, 1).flatten(1).unflatten(1, (-1, self.outputs))
            )
            numbers.append(place(features).permute(0, 2, 3, 1).flatten(1).unflatten(1, (-1, 4)))
        return torch.cat(logits, dim=1), torch.cat(numbers, dim=1)

    def features(self, images: Tensor) -> list[Tensor]:
        """The six feature maps that boxes are predicted from."""
        x, found = images, []
        for name, stage in self.base.items():
            x = stage(x)
            if name == "conv4":
                found.append(self.norm(x))
        found.append(x)
        for extra in self.extras:
            x = extra(x)
            found.append(x)
        return found
