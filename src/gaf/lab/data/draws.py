"""Random numbers that are a function of (seed, epoch, sample index), so that nothing else can change them.

Which batch a sample lands in, which process or worker takes it and whether the run was resumed have no
influence. The generator is a counter run through the finaliser of SplitMix64 (Steele, Lea and Flood,
*Fast splittable pseudorandom number generators*, 2014), once for each of the words, in int64 arithmetic
that wraps around.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

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
