"""The gather crops and mirrors as a loop over the images does."""

import pytest
import torch

from gaf.lab.data.augment import CropFlip, crop, scale_and_shift


def crop_by_hand(images, pad, top, left, mirrored):
    batch, channels, height, width = images.shape
    wide = torch.zeros(batch, channels, height + 2 * pad, width + 2 * pad, dtype=images.dtype)
    wide[:, :, pad : pad + height, pad : pad + width] = images
    out = torch.empty_like(images)
    for i in range(batch):
        image = wide[i].flip(2) if mirrored is not None and mirrored[i] else wide[i]
        out[i] = image[:, top[i] : top[i] + height, left[i] : left[i] + width]
    return out


@pytest.mark.parametrize("shape", [(81, 3, 32, 32), (81, 1, 28, 28), (81, 2, 5, 7)])
@pytest.mark.parametrize("flip", [True, False])
def test_crop_is_the_loop(shape, flip):
    images = torch.randint(0, 256, shape, dtype=torch.uint8)
    top, left = torch.arange(81) // 9, torch.arange(81) % 9  # every window
    mirrored = torch.randint(0, 2, (81,)) if flip else None
    found = crop(images, 4, top, left, mirrored)
    assert found.dtype == torch.uint8
    assert torch.equal(found, crop_by_hand(images, 4, top, left, mirrored))


def test_every_window_and_flip_is_as_likely():
    image = torch.arange(1, 17, dtype=torch.uint8).view(1, 1, 4, 4)
    many = 162 * 200
    found = CropFlip(pad=4, flip=True)(
        image.expand(many, 1, 4, 4), torch.arange(many), seed=0, epoch=0
    )
    kinds, counts = found.view(many, -1).unique(dim=0, return_counts=True)
    # of 9 x 9 windows, those at a border 4 away show nothing: black, mirrored or not
    assert len(kinds) == 7 * 7 * 2 + 1
    seen = counts[kinds.sum(1) > 0]
    assert abs(seen.float().mean() - 200) < 5
    assert seen.min() > 130  # 5 standard deviations
    assert seen.max() < 270


def test_no_images():
    nothing = torch.empty(0, 3, 32, 32, dtype=torch.uint8)
    found = CropFlip(pad=4, flip=True)(nothing, torch.arange(0), seed=0, epoch=0)
    assert found.shape == (0, 3, 32, 32)


def test_no_flip_means_none():
    images = torch.randint(0, 256, (64, 3, 8, 8), dtype=torch.uint8)
    found = CropFlip(pad=0, flip=False)(images, torch.arange(64), seed=0, epoch=0)
    assert torch.equal(found, images)


def test_normalisation_is_the_formula():
    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    images = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(1, 3, 16, 16)
    scale, shift = scale_and_shift(mean, std, 255.0, torch.device("cpu"))
    found = images.float().mul_(scale).add_(shift)
    channels = [torch.tensor(x, dtype=torch.float64).view(3, 1, 1) for x in (mean, std)]
    wanted = (images.double() / 255 - channels[0]) / channels[1]
    assert (found - wanted).abs().max() < 1e-6  # observed 2.6e-7
