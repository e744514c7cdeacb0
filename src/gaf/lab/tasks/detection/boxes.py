"""Boxes: their arithmetic, SSD300's default boxes, and from a network's outputs to detections.

Boxes are float tensors ``[..., 4]`` of edges (left, top, right, bottom), mostly as shares of the image, so
that resizing it leaves them alone; ``right - left`` is the width.

The 8,732 default boxes lie on six grids from fine to coarse (Liu et al., 2016, Section 2.2), with the numbers
of the authors' training on PASCAL VOC. A box may reach over the edge of the image: the authors do not clip
them there. Detections are decoded, the uncertain dropped, and one box kept for each object.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# What the four numbers of a network are multiplied by (Liu et al., SSD, 2016, in the authors' code): they
# are to be of size 1 where a default box is off by a usual amount.
VARIANCES = (0.1, 0.2)  # of centres, of the logarithms of sizes
LARGEST_LOG = (
    10.0  # of a size over its default box's: beyond it an untrained network makes infinities
)


def areas(boxes: Tensor) -> Tensor:
    """[..., 4] -> [...]; 0 where a box is turned inside out."""
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1)


def overlaps(a: Tensor, b: Tensor) -> Tensor:
    """The area of each intersection: [..., M, 4], [..., N, 4] -> [..., M, N].

    The edges are spread out one by one, because [..., M, N, 2] would be walked through in twos.
    """
    left, top, right, bottom = (
        pick(a[..., :, None, edge], b[..., None, :, edge])
        for edge, pick in enumerate((torch.maximum, torch.maximum, torch.minimum, torch.minimum))
    )
    return right.sub_(left).clamp_(min=0).mul_(bottom.sub_(top).clamp_(min=0))


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of each with each, 0 where both are empty: [..., M, N].

    Example:
        >>> iou(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 0, 3, 2], [4, 4, 5, 5]]))
        tensor([[0.3333, 0.0000]])
    """
    both = overlaps(a, b)
    either = areas(a)[..., :, None] + areas(b)[..., None, :] - both
    return both.div_(either.clamp_(min=torch.finfo(both.dtype).tiny))


def to_centres(boxes: Tensor) -> Tensor:
    """Edges -> (centre x, centre y, width, height)."""
    size = boxes[..., 2:] - boxes[..., :2]
    return torch.cat((boxes[..., :2] + size / 2, size), dim=-1)


def to_edges(boxes: Tensor) -> Tensor:
    """(Centre x, centre y, width, height) -> edges."""
    half = boxes[..., 2:] / 2
    return torch.cat((boxes[..., :2] - half, boxes[..., :2] + half), dim=-1)


def encode(boxes: Tensor, defaults: Tensor) -> Tensor:
    """What the network should say of a box that a default box (centre form) is responsible for.

    ((cx - dx) / dw, (cy - dy) / dh) / 0.1 and (ln(w / dw), ln(h / dh)) / 0.2.
    """
    centres = to_centres(boxes)
    shift = (centres[..., :2] - defaults[..., :2]) / defaults[..., 2:]
    tiny = torch.finfo(boxes.dtype).tiny
    growth = (centres[..., 2:] / defaults[..., 2:]).clamp(min=tiny).log()
    return torch.cat((shift / VARIANCES[0], growth / VARIANCES[1]), dim=-1)


def decode(numbers: Tensor, defaults: Tensor) -> Tensor:
    """The edges of the boxes that the network's numbers stand for; the inverse of :func:`encode`."""
    centre = numbers[..., :2] * VARIANCES[0] * defaults[..., 2:] + defaults[..., :2]
    size = (numbers[..., 2:] * VARIANCES[1]).clamp(max=LARGEST_LOG).exp() * defaults[..., 2:]
    return to_edges(torch.cat((centre, size), dim=-1))


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
    grids = []
    for grid in GRIDS:
        centres = (torch.arange(grid.cells, dtype=torch.float64) + 0.5) * grid.step
        y, x = torch.meshgrid(centres, centres, indexing="ij")
        shapes = torch.tensor(list(grid.shapes()), dtype=torch.float64)
        places = torch.stack((x, y), dim=-1).view(-1, 1, 2).expand(-1, grid.boxes, 2)
        sizes = shapes.expand(len(places), -1, -1)
        grids.append(torch.cat((places, sizes), dim=-1).view(-1, 4))
    return (torch.cat(grids) / SIZE).float()


CERTAIN = 0.01  # probability below which a box is dropped
CANDIDATES = 200  # boxes of a class that are looked at
SAME = 0.45  # intersection over union above which two boxes of a class show one object
KEPT = 200  # detections of an image


def suppress(boxes: Tensor, valid: Tensor, threshold: float = SAME) -> Tensor:
    """Greedy non-maximum suppression of many lists at once, each ordered from the most certain.

    A box is kept unless a kept one before it overlaps it by more than the threshold. The definition is
    applied to all boxes together until nothing changes. After n rounds at least the first n of a list are
    right, as each depends on those before it alone, so it ends, with the greedy result; mostly after a few.

    Args:
        boxes: [..., N, 4].
        valid: bool [..., N]; others are never kept and suppress nothing.
        threshold: of the intersection over union.
    """
    rivals = torch.triu(iou(boxes, boxes) > threshold, diagonal=1).to(boxes.dtype)
    kept = valid
    while True:
        beaten = torch.matmul(kept.to(boxes.dtype)[..., None, :], rivals).squeeze(-2) > 0
        settled = valid & ~beaten
        if torch.equal(settled, kept):
            return kept
        kept = settled


def detect(logits: Tensor, numbers: Tensor, defaults: Tensor) -> Tensor:
    """The detections of each image: float32 [B, 200, 6] of (label, score, left, top, right, bottom).

    The most certain come first. Labels are the data's, from 0; rows beyond the detections of an image have
    label -1 and score 0. Boxes are cut at the edges of the image. A default box whose logits or numbers are
    not finite gives no detection.

    Args:
        logits: of the classes with background, [B, P, classes + 1].
        numbers: of the boxes, [B, P, 4].
        defaults: the default boxes in centre form, [P, 4].
    """
    scores = logits.float().softmax(dim=-1)[..., 1:].transpose(1, 2)  # [B, classes, P]
    finite = logits.isfinite().all(dim=-1) & numbers.isfinite().all(dim=-1)  # [B, P]
    scores = torch.where(finite[:, None], scores, 0.0)
    boxes = decode(numbers.float(), defaults)
    most = min(CANDIDATES, scores.shape[-1])
    score, place = scores.topk(most, dim=-1)
    rows = torch.arange(len(boxes), device=boxes.device)[:, None, None]
    candidates = boxes[rows, place]  # [B, classes, 200, 4]
    cut = candidates.clamp(0, 1)
    inside = (cut[..., 2:] > cut[..., :2]).all(dim=-1)
    kept = suppress(
        candidates, (score > CERTAIN) & inside
    )  # whole boxes: the cut ones overlap more
    score = torch.where(kept, score, 0.0)
    label = torch.arange(score.shape[1], device=score.device)[:, None].expand_as(score)
    every = torch.cat((label[..., None].float(), score[..., None], cut), dim=-1).flatten(1, 2)
    best = every[..., 1].topk(min(KEPT, every.shape[1]), dim=1)
    detections = every.gather(1, best.indices[..., None].expand(-1, -1, 6))
    nothing = detections.new_tensor([-1.0, 0, 0, 0, 0, 0])
    return torch.where(best.values[..., None] > 0, detections, nothing)
