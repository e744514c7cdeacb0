"""Random crops and flips of a whole batch at once, and the random numbers they are drawn from.

The numbers are a function of (seed, epoch, sample index), so that nothing else can change them: which batch a
sample lands in, which process or worker takes it and whether the run was resumed have no influence. The
generator is a counter run through the finaliser of SplitMix64 (Steele, Lea and Flood, *Fast splittable
pseudorandom number generators*, 2014), once for each of the words, in int64 arithmetic that wraps around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

Word = TypeVar("Word", int, Tensor)

BITS = 32  # of a draw: enough for any image, and bits * high stays within int64
_WORD = 1 << 64


def _signed(word: int) -> int:
    """The int64 with the same bits."""
    word %= _WORD
    return word - _WORD if word >= _WORD // 2 else word


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def _shifted(x: Word, by: int) -> Word:
    """A shift to the right that fills with zeros; that of int64 repeats the sign."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mixed(x: Word) -> Word:
    """The finaliser: a bijection of 64 bits in which every input bit moves every output bit."""

    def wrap(y: Word) -> Word:
        return _signed(y) if isinstance(y, int) else y

    x = wrap((x ^ _shifted(x, 30)) * _FIRST)
    x = wrap((x ^ _shifted(x, 27)) * _SECOND)
    return x ^ _shifted(x, 31)


def draws(seed: int, epoch: int, index: Tensor, count: int) -> Tensor:
    """``count`` draws for each sample: int64 in [0, 2**32), of shape [len(index), count].

    Example:
        >>> whole = draws(0, 3, torch.arange(100), 2)
        >>> bool((draws(0, 3, torch.tensor([42]), 2) == whole[42]).all())
        True
    """
    state = 0
    for word in (seed, epoch):
        state = _mixed(_signed(state + (word + 1) * _GOLDEN))
    samples = _mixed((index.to(torch.int64)[:, None] + 1) * _GOLDEN + state)
    counter = torch.arange(1, count + 1, device=index.device) * _GOLDEN
    return _shifted(_mixed(samples + counter), 64 - BITS)


def below(draw: Tensor, high: int | Tensor) -> Tensor:
    """Integers in [0, high), all as likely to within high / 2**32."""
    return (draw * high) >> BITS


def uniform(draw: Tensor) -> Tensor:
    """Numbers in [0, 1), in float64: a float32 could round up to 1."""
    return draw.double() * 2.0**-BITS


@dataclass(frozen=True)
class CropFlip:
    """Pad with black, cut out a window of the old size anywhere, mirror every second image.

    Args:
        pad: pixels on each side.
        flip: whether to mirror.
    """

    pad: int
    flip: bool

    def __call__(self, images: Tensor, index: Tensor, *, seed: int, epoch: int) -> Tensor:
        """Images [B, C, H, W] of any dtype; ``index`` are their sample indices."""
        draw = draws(seed, epoch, index, 3)
        side = 2 * self.pad + 1
        top, left = below(draw[:, 0], side), below(draw[:, 1], side)
        mirrored = below(draw[:, 2], 2) if self.flip else None
        return crop(images, self.pad, top, left, mirrored)


def crop(
    images: Tensor, pad: int, top: Tensor, left: Tensor, mirrored: Tensor | None = None
) -> Tensor:
    """Window (top, left) of each padded image; where ``mirrored`` is 1, of its mirror image.

    One gather of rows: the batch as one flat buffer, in which every window row is ``width`` neighbours.
    It takes a quarter of the time of indexing with one tensor for each axis.
    """
    batch, channels, height, width = images.shape
    if not batch:
        return images
    padded = functional.pad(images, (pad, pad, pad, pad))
    high, wide = padded.shape[2:]
    size = channels * high * wide
    start = torch.arange(batch, device=images.device) * size + top * wide + left
    if mirrored is not None:
        padded = torch.cat((padded, padded.flip(3)))
        start = start + mirrored * (batch * size)
    channel = torch.arange(channels, device=images.device) * (high * wide)
    row = torch.arange(height, device=images.device) * wide
    rows = start[:, None, None] + channel[:, None] + row
    windows = padded.view(-1).unfold(0, width, 1)
    return windows.index_select(0, rows.view(-1)).view(images.shape)


def scale_and_shift(
    mean: Sequence[float], std: Sequence[float], peak: float, device: torch.device
) -> tuple[Tensor, Tensor]:
    """What makes (x / peak - mean) / std of each channel in one multiplication and one addition."""
    mean_, std_ = (
        torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (mean, std)
    )
    scale, shift = 1 / (peak * std_), -mean_ / std_
    return scale.float().to(device), shift.float().to(device)
