"""What SSD learns from: which default box answers for which object, and the loss (Liu et al., 2016, 2.2).

Objects come as a batch of rows of equal length, filled up with label ``NOTHING``, so that all images are
matched at once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from gaf.lab.tasks.detection.boxes import encode, iou, to_edges

NOTHING = -1  # the label of a row that is no object
BACKGROUND = 0  # the network's class 0; class k of the data is its k + 1
ENOUGH = 0.5  # intersection over union from which a default box answers for an object
NEGATIVES = 3  # boxes of background to learn from, for each box with an object


class Matches(NamedTuple):
    """What each default box should say."""

    classes: Tensor  # int64 [B, P]: the network's class, 0 for background
    boxes: Tensor  # [B, P, 4]: the object's edges; of background, those of any object


class Losses(NamedTuple):
    """Sums for each image; the loss of a batch is their sum over the number of all its boxes with objects."""

    total: Tensor  # [B]
    matched: Tensor  # int64 [B]

    def mean(self) -> Tensor:
        """The loss of SSD; 0 where there is no object in the batch."""
        return self.total.sum() / self.matched.sum().clamp(min=1)


def match(labels: Tensor, boxes: Tensor, defaults: Tensor) -> Matches:
    """Objects [B, M] and [B, M, 4] to default boxes in centre form [P, 4].

    Each object gets a default box of its own, however little that overlaps it (:func:`own_boxes`). Every
    other default box answers for the object it overlaps most, if by half or more.
    """
    rows, most = labels.shape
    if not most:
        classes = labels.new_full((rows, len(defaults)), BACKGROUND)
        return Matches(classes, boxes.new_zeros(rows, len(defaults), 4))
    overlap = iou(boxes, to_edges(defaults))  # [B, M, P]
    overlap.masked_fill_((labels == NOTHING)[..., None], -1.0)
    best, owner = overlap.max(dim=1)
    own = own_boxes(overlap)
    owner = torch.where(own >= 0, own, owner)
    positive = (best >= ENOUGH) | (own >= 0)
    classes = torch.where(positive, labels.gather(1, owner) + 1, BACKGROUND)
    return Matches(classes, boxes.gather(1, owner[..., None].expand(-1, -1, 4)))


def own_boxes(overlap: Tensor) -> Tensor:
    """The object that each default box belongs to, -1 for none: [B, M, P] -> [B, P].

    The bipartite matching of SSD's authors: of all pairs with an overlap the one with the most is taken, then
    the most of the objects and boxes left, and so on; of equals the first. Here all objects ask at once for
    the box they overlap most, a box takes the one that overlaps it most, and who was refused asks for their
    next. As both sides rank pairs alike, this ends with the same pairs, mostly after one or two rounds.

    Args:
        overlap: not above 0 where there is no object; what was refused is set to 0 in it.
    """
    rows, most, count = overlap.shape
    number = torch.arange(most, device=overlap.device).expand(rows, -1)
    share, wish = overlap.max(dim=2)
    while True:
        asked = share.new_zeros(rows, count).scatter_reduce_(1, wish, share, "amax")
        strongest = (share > 0) & (share == asked.gather(1, wish))
        taker = wish.new_full((rows, count), most)
        taker.scatter_reduce_(1, wish, torch.where(strongest, number, most), "amin")
        refused = (share > 0) & (taker.gather(1, wish) != number)
        if not refused.any():
            return torch.where(taker < most, taker, -1)
        row, thing = refused.nonzero(as_tuple=True)
        overlap[row, thing, wish[row, thing]] = 0
        share[row, thing], wish[row, thing] = overlap[row, thing].max(dim=1)


def hard_negatives(background_loss: Tensor, positive: Tensor) -> Tensor:
    """The boxes of background that are taken most for something else, three for each box with an object."""
    wanted = NEGATIVES * positive.sum(dim=1, keepdim=True)
    candidates = background_loss.masked_fill(positive, -torch.inf)
    order = candidates.argsort(dim=1, descending=True)
    place = torch.arange(order.shape[1], device=order.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(1, order, place)
    return (rank < wanted) & ~positive


def multibox_loss(logits: Tensor, numbers: Tensor, matches: Matches, defaults: Tensor) -> Losses:
    """Cross-entropy of the boxes with objects and the hardest of background, smooth L1 of the former.

    Args:
        logits: of the classes with background, [B, P, classes + 1].
        numbers: of the boxes, [B, P, 4], see :func:`gaf.lab.tasks.detection.boxes.encode`.
        matches: what they should be.
        defaults: the default boxes in centre form, [P, 4].
    """
    logits, numbers = logits.float(), numbers.float()  # sums of thousands of terms
    positive = matches.classes != BACKGROUND
    with torch.no_grad():
        background_loss = logits.logsumexp(dim=-1) - logits[..., BACKGROUND]
        chosen = positive | hard_negatives(background_loss, positive)
    image, box = chosen.nonzero(as_tuple=True)
    naming = functional.cross_entropy(
        logits[image, box], matches.classes[image, box], reduction="none"
    )
    total = logits.new_zeros(len(logits)).index_add(0, image, naming)
    image, box = positive.nonzero(as_tuple=True)
    wanted = encode(matches.boxes[image, box], defaults[box])
    placing = functional.smooth_l1_loss(numbers[image, box], wanted, reduction="none").sum(-1)
    return Losses(total.index_add(0, image, placing), positive.sum(dim=1))
