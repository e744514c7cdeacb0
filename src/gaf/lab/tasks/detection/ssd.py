"""SSD300 (Liu et al., *SSD: Single Shot MultiBox Detector*, 2016) with the VGG-16 base.

The base is thirteen convolutions, and the first two linear layers made convolutions: fc6 becomes a 3 x 3
convolution that looks at every sixth pixel, fc7 a 1 x 1 convolution, both with a quarter of their units (Chen
et al., DeepLab; Liu et al., 2016, Section 3). The pooling before them keeps the size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from gaf.common import tensor_files
from gaf.common.errors import GafError
from gaf.common.unpickling import Refused
from gaf.lab.tasks.classification.layers import scaled
from gaf.lab.tasks.detection.boxes import GRIDS, default_boxes

VGG_STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
FC = 1024
# Where the convolutions are when each ReLU and each pooling has a number too.
PLACES = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
# Of ImageNet's training images, as the data is normalised; the other file was trained on pixels less a mean.
STD, PEAK = (0.229, 0.224, 0.225), 255.0


def vgg_stages(in_channels: int, width: float) -> OrderedDict[str, nn.Sequential]:
    """Convolutions 1 to 5 with the pooling before each, then fc6 and fc7."""
    stages: OrderedDict[str, nn.Sequential] = OrderedDict()
    fan_in = in_channels
    for number, channels in enumerate(VGG_STAGES, start=1):
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if number > 1:  # rounding up: 75 pixels become 38
            layers["pool"] = nn.MaxPool2d(2, 2, ceil_mode=True)
        for place, fan_out in enumerate((scaled(count, width) for count in channels), start=1):
            layers[f"conv{place}"] = nn.Conv2d(fan_in, fan_out, 3, padding=1)
            layers[f"relu{place}"] = nn.ReLU(inplace=True)
            fan_in = fan_out
        stages[f"conv{number}"] = nn.Sequential(layers)
    units = scaled(FC, width)
    stages["fc"] = nn.Sequential(
        OrderedDict(
            pool=nn.MaxPool2d(3, 1, padding=1),
            fc6=nn.Conv2d(fan_in, units, 3, padding=6, dilation=6),
            relu6=nn.ReLU(inplace=True),
            fc7=nn.Conv2d(units, units, 1),
            relu7=nn.ReLU(inplace=True),
        )
    )
    return stages


def load_vgg(base: nn.Module, path: str) -> None:
    """Put the weights of a local VGG-16 file into the stages: torchvision's, or the reduced one of SSD.

    The former has whole linear layers, of which every fourth unit and every third pixel is taken. The latter
    expects pixels from 0 to 255 less their mean, so that its first weights are scaled to normalised images.
    """
    saved = _read(Path(path))
    reduced = "0.weight" in saved
    layers = [layer for layer in base.modules() if isinstance(layer, nn.Conv2d)]
    if reduced:  # after thirteen convolutions and the pooling at 30 come fc6, a ReLU and fc7
        names = [str(place) for place in (*PLACES, 31, 33)]
    else:
        names = [*(f"features.{place}" for place in PLACES), "classifier.0", "classifier.3"]
    with torch.no_grad():
        for name, layer in zip(names, layers, strict=True):
            try:
                weight, bias = saved[f"{name}.weight"], saved[f"{name}.bias"]
                if name.startswith("classifier"):
                    weight, bias = _fewer(weight, layer.weight.shape), bias[::4]
                assert layer.bias is not None
                for own, read in ((layer.weight, weight), (layer.bias, bias)):
                    if own.shape != read.shape:  # copy_ would spread a single number over all
                        raise RuntimeError(f"its shape is {list(read.shape)}")
                    own.copy_(read)
                if reduced and name == "0":
                    layer.weight *= (torch.tensor(STD) * PEAK).view(1, 3, 1, 1)
            except (KeyError, IndexError, RuntimeError) as error:
                reason = str(error).partition("\n")[0]
                raise GafError(
                    f"{path} does not hold VGG-16: {name} does not fit: {reason}"
                ) from None


def _read(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a file; nothing in it is run."""
    try:
        weights = tensor_files.load(path)
    except OSError as error:
        raise GafError(f"{path} cannot be read: {error.strerror}") from None
    except Refused as error:
        raise GafError(f"{path} holds no weights that can be read safely: {error}") from None
    if not isinstance(weights, Mapping) or not all(
        isinstance(value, Tensor) for value in weights.values()
    ):
        raise GafError(f"{path} does not hold the weights of a model by name")
    return weights


def _fewer(weight: Tensor, shape: torch.Size) -> Tensor:
    """fc6 [4096, 512 * 7 * 7] -> [1024, 512, 3, 3]; fc7 [4096, 4096] -> [1024, 1024, 1, 1]."""
    if shape[-1] == 3:
        return weight.view(weight.shape[0], shape[1], 7, 7)[::4, :, ::3, ::3]
    return weight[::4, ::4, None, None]


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
        base = vgg_stages(in_channels, width)
        self.base = nn.ModuleDict(base)
        fan_in = scaled(FC, width)
        sources = [scaled(VGG_STAGES[3][-1], width), fan_in]
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
            load_vgg(self.base, weights)

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
        x, maps = images, []
        for name, stage in self.base.items():
            x = stage(x)
            if name == "conv4":
                maps.append(self.norm(x))
        maps.append(x)
        for extra in self.extras:
            x = extra(x)
            maps.append(x)
        return maps
