"""Average precision, matching and suppression written as the definitions read, one box at a time."""

from __future__ import annotations

import math
from fractions import Fraction


def iou(a, b) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0.0) * max(height, 0.0)
    either = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
    return both / either if either > 0 else 0.0


def judged(found, objects, label) -> tuple[list[bool], int]:
    """Right or wrong for each detection of a class from the most certain on; and the objects to find."""
    there: dict[int, list] = {}
    for image, kind, box, difficult in objects:
        if kind == label:
            there.setdefault(image, []).append({"box": box, "difficult": difficult, "taken": False})
    verdicts = []
    mine = [each for each in found if each[1] == label]
    for image, _, _, box in sorted(mine, key=lambda each: -each[2]):  # stable
        best, target = -math.inf, None
        for each in there.get(image, []):
            overlap = iou(box, each["box"])
            if overlap > best:
                best, target = overlap, each
        if target is None or best < 0.5:
            verdicts.append(False)
        elif not target["difficult"]:
            verdicts.append(not target["taken"])
            target["taken"] = True
    to_find = sum(not each["difficult"] for listed in there.values() for each in listed)
    return verdicts, to_find


def curve(verdicts, to_find) -> list[tuple[Fraction, Fraction]]:
    """(recall, precision) after each detection."""
    points, hits = [], 0
    for count, right in enumerate(verdicts, start=1):
        hits += right
        points.append((Fraction(hits, to_find), Fraction(hits, count)))
    return points


def eleven_points(verdicts, to_find) -> float:
    if not to_find:
        return math.nan
    points = curve(verdicts, to_find)
    best = [
        max((p for r, p in points if r >= Fraction(k, 10)), default=Fraction(0)) for k in range(11)
    ]
    return float(sum(best) / 11)


def area(verdicts, to_find) -> float:
    """As the development kit of 2010 does: pad, make the precision fall, add up rectangles."""
    if not to_find:
        return math.nan
    points = curve(verdicts, to_find)
    recall = [Fraction(0), *(r for r, _ in points), Fraction(1)]
    precision = [Fraction(0), *(p for _, p in points), Fraction(0)]
    for i in reversed(range(len(precision) - 1)):
        precision[i] = max(precision[i], precision[i + 1])
    steps = zip(recall, recall[1:], precision[1:], strict=False)
    return float(sum((after - before) * p for before, after, p in steps))


def suppressed(boxes, threshold) -> list[int]:
    """The indices that greedy suppression keeps; the boxes come from the most certain on."""
    kept: list[int] = []
    for i, box in enumerate(boxes):
        if all(iou(box, boxes[k]) <= threshold for k in kept):
            kept.append(i)
    return kept
