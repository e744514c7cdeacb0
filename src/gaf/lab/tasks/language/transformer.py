"""A decoder: each place of a sequence guesses the next element from those up to it.

Attention and two linear layers by turns, each added to its input and reading it through a layer norm
(pre-norm). Places are learned. Weights begin as in GPT-2: normal of 0.02, and what is added to the sum by
2 * depth branches smaller by the root of their number.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from gaf.common.errors import GafError
from gaf.lab.tasks.classification.layers import is_count

STD = 0.02
WIDER = 4  # numbers within a feed-forward branch, for each outside


class Attention(nn.Module):
    """Each place looks at itself and at those before it: softmax(q kᵀ / √d) v, the future masked."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.inputs(x).split(width, dim=2)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(seen.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.wide = nn.Linear(width, WIDER * width)
        self.narrow = nn.Linear(WIDER * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x))))


class Transformer(nn.Module):
    """Logits of the next element at each place, [B, T, classes] for int64 [B, T].

    Args:
        classes: how many kinds of elements there are.
        size: the longest sequence.
        depth: how many blocks.
        width: numbers that stand for a place.
        heads: that the attention of a block is split into.
    """

    def __init__(
        self, *, classes: int, size: int, depth: int = 2, width: int = 96, heads: int = 4
    ) -> None:
        super().__init__()
        for name, value in (("size", size), ("depth", depth), ("width", width), ("heads", heads)):
            if not is_count(value):
                raise GafError(
                    f"{name} of a transformer must be a whole number above 0, got {value!r}"
                )
        if width % heads:
            raise GafError(f"the width {width} of a transformer does not divide by heads={heads}")
        self.elements = nn.Embedding(classes, width)
        self.places = nn.Embedding(size, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        for name, p in self.named_parameters():
            branch = name.endswith(("attention.output.weight", "narrow.weight"))
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif p.ndim > 1:
                nn.init.normal_(p, std=STD / math.sqrt(2 * depth) if branch else STD)

    def forward(self, sequence: Tensor) -> Tensor:
        places = torch.arange(sequence.shape[1], device=sequence.device)
        x = self.elements(sequence) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
