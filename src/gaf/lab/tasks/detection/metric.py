"""Average precision as PASCAL VOC's development kit defines it (VOCevaldet, Everingham et al., 2010).

A detection belongs to the object of its class and image that it overlaps most. From the most to the least
certain, equal certainties in the order given, the first that overlaps its object by half is right; each
further one of the same object is false, as is one without an object or with a certainty that is not finite.
An object marked *difficult* counts for nothing: not as one to find, and its detections neither as right nor
as false.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gaf.lab.tasks.detection.boxes import areas

ENOUGH = 0.5  # intersection over union, this much included
POINTS = 10  # the 11-point rule looks at recalls 0 / 10, 1 / 10, ..., 10 / 10


class Objects(NamedTuple):
    """What is to be found, over all images; VOC calls it ground truth."""

    image: Tensor  # int64 [N]: the index of its image
    label: Tensor  # int64 [N], from 0
    box: Tensor  # [N, 4], edges
    difficult: Tensor  # bool [N]


class Detections(NamedTuple):
    """What was found, over all images."""

    image: Tensor
    label: Tensor
    score: Tensor
    box: Tensor


class Precisions(NamedTuple):
    """The average precision of each class, by both rules; NaN for a class without an object to find."""

    eleven_points: Tensor  # float64 [classes]: VOC2007
    area: Tensor  # VOC2010 and later

    def means(self) -> tuple[float, float]:
        """Over the classes that have objects."""
        return self.eleven_points.nanmean().item(), self.area.nanmean().item()


def average_precisions(detections: Detections, objects: Objects, classes: int) -> Precisions:
    """The average precision of each class.

    Example:
        One object of class 0, found at the second guess:

        >>> box = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
        >>> zero = torch.zeros(1, dtype=torch.int64)
        >>> objects = Objects(zero, zero, box, torch.tensor([False]))
        >>> guesses = torch.cat((box + 2, box))
        >>> scores = torch.tensor([0.9, 0.8])
        >>> found = Detections(zero.repeat(2), zero.repeat(2), scores, guesses)
        >>> average_precisions(found, objects, 1).eleven_points
        tensor([0.5000], dtype=torch.float64)
    """
    order = torch.argsort(detections.score, descending=True, stable=True)  # the most certain first
    detections = Detections(*(column[order] for column in detections))
    target, overlap = _best_object(detections, objects)
    hit = (overlap >= ENOUGH) & detections.score.isfinite()
    ignored = hit & _at(objects.difficult, target, False)
    right = _first_of_each(target, hit & ~ignored, len(objects.label))
    to_find = torch.bincount(objects.label[~objects.difficult], minlength=classes)
    rules = [
        _of_class(right[mine], int(to_find[label]))
        for label in range(classes)
        for mine in ((detections.label == label) & ~ignored,)
    ]
    return Precisions(
        *(torch.tensor(values, dtype=torch.float64) for values in zip(*rules, strict=True))
    )


def _best_object(detections: Detections, objects: Objects) -> tuple[Tensor, Tensor]:
    """For each detection the object of its image and class that it overlaps most, and by how much.

    Ties go to the object listed first; without any object the index is -1 and the overlap 0. Objects are
    brought together by (image, class), so that only pairs that could match are looked at.
    """
    span = int(max([0, *(x.max() for x in (detections.label, objects.label) if len(x))])) + 1
    keys, order = torch.sort(objects.image * span + objects.label, stable=True)
    wanted = detections.image * span + detections.label
    first = torch.searchsorted(keys, wanted)
    count = torch.searchsorted(keys, wanted, right=True) - first
    guess = torch.arange(len(wanted)).repeat_interleave(count)
    within = torch.arange(len(guess)) - (count.cumsum(0) - count)[guess]
    candidate = order[first[guess] + within]
    overlap = _iou_of_pairs(detections.box[guess].double(), objects.box[candidate].double())
    best = torch.zeros(len(wanted), dtype=torch.float64)
    best.scatter_reduce_(0, guess, overlap, "amax")
    none = len(objects.label)
    target = torch.full((len(wanted),), none)
    listed = torch.where(overlap == best[guess], candidate, none)
    target.scatter_reduce_(0, guess, listed, "amin")
    return torch.where(target == none, -1, target), best


def _iou_of_pairs(a: Tensor, b: Tensor) -> Tensor:
    corners = torch.cat((torch.maximum(a, b)[:, :2], torch.minimum(a, b)[:, 2:]), dim=1)
    both = areas(corners)
    either = areas(a) + areas(b) - both
    return both / either.clamp(min=torch.finfo(both.dtype).tiny)


def _at(values: Tensor, index: Tensor, otherwise: bool) -> Tensor:
    """``values[index]``, and something else where the index is -1."""
    padded = torch.cat((values, values.new_tensor([otherwise])))
    return padded[index]


def _first_of_each(target: Tensor, hit: Tensor, objects: int) -> Tensor:
    """Of the detections that hit an object, the first of each object."""
    position = torch.arange(len(target))
    first = torch.full((objects,), len(target))
    first.scatter_reduce_(0, target[hit], position[hit], "amin")
    right = torch.zeros(len(target), dtype=torch.bool)
    right[first[first < len(target)]] = True
    return right


def _of_class(right: Tensor, to_find: int) -> tuple[float, float]:
    """Both rules for one class: its detections in order, and how many objects there are to find."""
    if not to_find:
        return float("nan"), float("nan")
    hits = right.cumsum(0)
    precision = hits.double() / torch.arange(1, len(right) + 1)
    best_later = precision.flip(0).cummax(0).values.flip(0)  # at this recall or a higher one
    at_least = torch.arange(POINTS + 1) * to_find  # in whole numbers: 3 of 10 is a recall of 3/10
    place = torch.searchsorted(POINTS * hits, at_least)
    reached = place[place < len(right)]
    eleven = best_later[reached].sum() / (POINTS + 1)
    area = best_later[right].sum() / to_find  # each hit is a step of 1 / to_find in recall
    return eleven.item(), area.item()
