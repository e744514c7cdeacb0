"""SSD300's default boxes: 8,732 of them, on six grids from fine to coarse (Liu et al., 2016, Section 2.2).

The numbers are those of the authors' training on PASCAL VOC. A box may reach over the edge of the image: the
authors do not clip them there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

SIZE = 300  # pixels: the side of the image


class Grid(NamedTuple):
    """One feature map and its boxes, in pixels."""

    cells: int  # on a side
    step: int  # from one centre to the next
    smallest: int  # the side of the small square; that of the large one is sqrt(smallest * largest)
    largest: int
    ratios: tuple[int, ...]  # width over height of the others, each also upright

    @property
    def boxes(self) -> int:
        """At each cell."""
        return 2 + 2 * len(self.ratios)

    def shapes(self) -> Iterator[tuple[float, float]]:
        """Width and height of the boxes at a cell, in the order of the network's outputs."""
        yield self.smallest, self.smallest
        middle = math.sqrt(self.smallest * self.largest)
        yield middle, middle
        for ratio in self.ratios:
            wide, narrow = self.smallest * math.sqrt(ratio), self.smallest / math.sqrt(ratio)
            yield wide, narrow
            yield narrow, wide


GRIDS = (
    Grid(38, 8, 30, 60, (2,)),
    Grid(19, 16, 60, 111, (2, 3)),
    Grid(10, 32, 111, 162, (2, 3)),
    Grid(5, 64, 162, 213, (2, 3)),
    Grid(3, 100, 213, 264, (2,)),
    Grid(1, 300, 264, 315, (2,)),
)


def default_boxes() -> Tensor:
    """All of them in centre form, as shares of the image: float32 [8732, 4].

    Grid by grid, in each row by row, in each cell box by box: as the outputs of the network come.

    Example:
        >>> default_boxes().shape
        torch.Size([8732, 4])
    """
    found = []
    for grid in GRIDS:
        centres = (torch.arange(grid.cells, dtype=torch.float64) + 0.5) * grid.step
        y, x = torch.meshgrid(centres, centres, indexing="ij")
        shapes = torch.tensor(list(grid.shapes()), dtype=torch.float64)
        places = torch.stack((x, y), dim=-1).view(-1, 1, 2).expand(-1, grid.boxes, 2)
        sizes = shapes.expand(len(places), -1, -1)
        found.append(torch.cat((places, sizes), dim=-1).view(-1, 4))
    return (torch.cat(found) / SIZE).float()
