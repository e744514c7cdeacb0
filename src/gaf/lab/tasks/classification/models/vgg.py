"""VGG-16 as SSD uses it: thirteen convolutions, and the first two linear layers made convolutions.

fc6 becomes a 3 x 3 convolution that looks at every sixth pixel, fc7 a 1 x 1 convolution, both with a quarter
of their units (Chen et al., DeepLab; Liu et al., 2016, Section 3). The pooling before them keeps the size.
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
from gaf.lab.tasks.classification.models.layers import scaled

STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
FC = 1024
# Of ImageNet's training images, as the data is normalised; the other file was trained on pixels less a mean.
STD, PEAK = (0.229, 0.224, 0.225), 255.0


def stages(in_channels: int, width: float) -> OrderedDict[str, nn.Sequential]:
    """Convolutions 1 to 5 with the pooling before each, then fc6 and fc7."""
    found: OrderedDict[str, nn.Sequential] = OrderedDict()
    fan_in = in_channels
    for number, channels in enumerate(STAGES, start=1):
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if number > 1:  # rounding up: 75 pixels become 38
            layers["pool"] = nn.MaxPool2d(2, 2, ceil_mode=True)
        for place, fan_out in enumerate((scaled(each, width) for each in channels), start=1):
            layers[f"conv{place}"] = nn.Conv2d(fan_in, fan_out, 3, padding=1)
            layers[f"relu{place}"] = nn.ReLU(inplace=True)
            fan_in = fan_out
        found[f"conv{number}"] = nn.Sequential(layers)
    units = scaled(FC, width)
    found["fc"] = nn.Sequential(
        OrderedDict(
            pool=nn.MaxPool2d(3, 1, padding=1),
            fc6=nn.Conv2d(fan_in, units, 3, padding=6, dilation=6),
            relu6=nn.ReLU(inplace=True),
            fc7=nn.Conv2d(units, units, 1),
            relu7=nn.ReLU(inplace=True),
        )
    )
    return found


def load(base: nn.Module, path: str) -> None:
    """Put the weights of a local VGG-16 file into the stages: torchvision's, or the reduced one of SSD.

    The former has whole linear layers, of which every fourth unit and every third pixel is taken. The latter
    expects pixels from 0 to 255 less their mean, so that its first weights are scaled to normalised images.
    """
    found = _read(Path(path))
    reduced = "0.weight" in found
    layers = [each for each in base.modules() if isinstance(each, nn.Conv2d)]
    names = _reduced_names() if reduced else [f"features.{n}" for n in _places()]
    names = names if reduced else [*names, "classifier.0", "classifier.3"]
    with torch.no_grad():
        for name, layer in zip(names, layers, strict=True):
            try:
                weight, bias = found[f"{name}.weight"], found[f"{name}.bias"]
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
        found = tensor_files.load(path)
    except OSError as error:
        raise GafError(f"{path} cannot be read: {error.strerror}") from None
    except Refused as error:
        raise GafError(f"{path} holds no weights that can be read safely: {error}") from None
    if not isinstance(found, Mapping) or not all(
        isinstance(each, Tensor) for each in found.values()
    ):
        raise GafError(f"{path} does not hold the weights of a model by name")
    return found


def _places() -> list[int]:
    """Where the convolutions are when each ReLU and each pooling has a number too: 0, 2, 5, 7, 10, ..."""
    found, place = [], 0
    for channels in STAGES:
        for _ in channels:
            found.append(place)
            place += 2
        place += 1
    return found


def _reduced_names() -> list[str]:
    """After thirteen convolutions and the pooling at 30 come fc6, a ReLU and fc7."""
    return [str(each) for each in (*_places(), 31, 33)]


def _fewer(weight: Tensor, shape: torch.Size) -> Tensor:
    """fc6 [4096, 512 * 7 * 7] -> [1024, 512, 3, 3]; fc7 [4096, 4096] -> [1024, 1024, 1, 1]."""
    if shape[-1] == 3:
        return weight.view(weight.shape[0], shape[1], 7, 7)[::4, :, ::3, ::3]
    return weight[::4, ::4, None, None]
