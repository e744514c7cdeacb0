"""Images as a loop written by hand prepares them, for the comparison with the training engine."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

CLASSES = 10
SIZE = 64  # of photographs, once cut
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


def crops(images: Tensor) -> Tensor:
    """Random crops after a padding of 4, and flips, as loops for CIFAR on tensors have them."""
    count, _, height, width = images.shape
    padded = functional.pad(images, (4, 4, 4, 4))
    top, left = torch.randint(9, (2, count, 1))
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    flipped = torch.rand(count, 1) < 0.5
    columns = torch.where(flipped, columns.flip(1), columns)
    each = torch.arange(count)[:, None, None]
    return padded[each, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def normalised(images: Tensor) -> Tensor:
    """Bytes to numbers around 0."""
    mean, std = (torch.tensor(each).view(-1, 1, 1) for each in (MEAN, STD))
    return images.float().div_(255).sub_(mean).div_(std)


class Photos(Dataset[tuple[Tensor, int]]):
    """A folder of images as one writes it by hand: random resized crop and flip, or the centre."""

    def __init__(self, folder: Path, train: bool) -> None:
        classes = sorted(path for path in folder.iterdir())
        self.files = [
            (path, label) for label, each in enumerate(classes) for path in sorted(each.iterdir())
        ]
        self.train = train

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        import numpy as np
        from PIL import Image

        path, label = self.files[number]
        with Image.open(path) as file:
            image = file.convert("RGB")
        width, height = image.size
        if self.train:
            area, shape, x, y, flip = torch.rand(5).tolist()
            side = (width * height * (0.08 + 0.92 * area)) ** 0.5
            stretch = (0.75 + shape * (4 / 3 - 0.75)) ** 0.5
            w, h = min(width, round(side * stretch)), min(height, round(side / stretch))
            left, top = int(x * (width - w + 1)), int(y * (height - h + 1))
            image = image.crop((left, top, left + w, top + h)).resize((SIZE, SIZE), 2)
            if flip < 0.5:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        else:
            short = round(SIZE * 256 / 224)
            image = image.resize((short, short), 2)
            edge = (short - SIZE) // 2
            image = image.crop((edge, edge, edge + SIZE, edge + SIZE))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous(), label


def write_photos(folder: Path, count: int) -> None:
    """JPEG files of the size and smoothness of photographs."""
    from PIL import Image

    generator = torch.Generator().manual_seed(count)
    for number in range(count):
        coarse = torch.rand(1, 3, 12, 12, generator=generator)
        image = functional.interpolate(coarse, (256, 256), mode="bicubic").clamp(0, 1)[0]
        pixels = (255 * image).byte().permute(1, 2, 0).contiguous()
        path = folder / f"class{number % CLASSES}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.frombytes("RGB", (256, 256), bytes(pixels.flatten().tolist())).save(path, quality=90)
