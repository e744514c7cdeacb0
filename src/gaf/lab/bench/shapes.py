"""The lists of tensors that are timed, written from the architectures."""

from __future__ import annotations

import math
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Shapes:
    """A list of tensors under a name."""

    name: str
    title: str
    tensors: tuple[Shape, ...]

    @property
    def parameters(self) -> int:
        """How many numbers the tensors hold together."""
        return sum(map(math.prod, self.tensors))

    @property
    def label(self) -> str:
        """The title with the counts."""
        return f"{self.title}: {len(self.tensors):,} tensors, {self.parameters:,} parameters"


def resnet50() -> Shapes:
    """ResNet-50 with 1,000 classes: convolutions without bias, each with its batch norm, and a classifier."""

    def conv(fan_in: int, fan_out: int, size: int) -> list[Shape]:
        return [(fan_out, fan_in, size, size), (fan_out,), (fan_out,)]

    tensors, channels = conv(3, 64, 7), 64
    for inner, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            tensors += conv(channels, inner, 1) + conv(inner, inner, 3) + conv(inner, 4 * inner, 1)
            tensors += conv(channels, 4 * inner, 1) if block == 0 else []
            channels = 4 * inner
    return Shapes("resnet50", "ResNet-50", (*tensors, (1000, channels), (1000,)))


def transformer(
    width: int = 768, layers: int = 12, words: int = 16_384, length: int = 1024
) -> Shapes:
    """A decoder with learned positions, pre-norm blocks and output weights tied to the embedding."""
    norm = [(width,), (width,)]

    def linear(fan_in: int, fan_out: int) -> list[Shape]:
        return [(fan_out, fan_in), (fan_out,)]

    attention = linear(width, 3 * width) + linear(width, width)
    mlp = linear(width, 4 * width) + linear(4 * width, width)
    block = norm + attention + norm + mlp
    return Shapes(
        "transformer", "Transformer", ((words, width), (length, width), *(layers * block), *norm)
    )


def tiny() -> Shapes:
    """1,000 tensors of 64 elements: all that is timed is the overhead of a call and of a tensor."""
    return Shapes("tiny", "Tiny tensors", ((64,),) * 1000)


def flat(millions: int, piece: int = 250_000) -> Shapes:
    """So many million parameters in equal pieces."""
    return Shapes("flat", f"{millions} M parameters", ((piece,),) * (millions * 1_000_000 // piece))


SHAPES = {shapes.name: shapes for shapes in (resnet50(), transformer(), tiny())}

# The same tensors, on a machine where as many processes as have this number compute all the time.
COMPANY = 2
BESIDE_OTHERS = Shapes("busy", "ResNet-50, busy machine", resnet50().tensors)
LISTS = {**SHAPES, BESIDE_OTHERS.name: BESIDE_OTHERS}
