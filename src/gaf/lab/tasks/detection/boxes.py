"""Boxes: areas, overlaps, two ways to write them, and how a network's four numbers move one."""

from __future__ import annotations

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
