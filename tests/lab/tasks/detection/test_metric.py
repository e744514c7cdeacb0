"""Average precision: hand-computed cases, and a brute-force reading of the rules on real annotations."""

from __future__ import annotations

import math
import random

import pytest
import torch

from gaf.lab.data import load
from gaf.lab.tasks.detection.metric import Detections, Objects, average_precisions
from gaf.lab.tasks.detection.source import VocSource
from tests.lab.tasks.detection import brute

BOX = [0.0, 0.0, 1.0, 1.0]
FAR = [2.0, 2.0, 3.0, 3.0]
CLOSE = [0.0, 0.0, 0.5, 1.0]  # overlaps BOX by exactly a half
LESS = [0.0, 0.0, 0.499, 1.0]


def measured(found, objects, classes=1):
    """Both rules, from tuples (image, label, score, box) and (image, label, box, difficult)."""
    image, label, score, box = zip(*found, strict=True) if found else ((), (), (), ())
    where, kind, truth, difficult = zip(*objects, strict=True) if objects else ((), (), (), ())
    whole = {"dtype": torch.int64}
    return average_precisions(
        Detections(
            torch.tensor(image, **whole),
            torch.tensor(label, **whole),
            torch.tensor(score),
            torch.tensor(box).view(-1, 4),
        ),
        Objects(
            torch.tensor(where, **whole),
            torch.tensor(kind, **whole),
            torch.tensor(truth).view(-1, 4),
            torch.tensor(difficult, dtype=torch.bool),
        ),
        classes,
    )


EASY, DIFFICULT = (0, 0, BOX, False), (0, 0, BOX, True)
OTHER = (1, 0, BOX, False)


@pytest.mark.parametrize(
    ("found", "objects", "eleven", "area"),
    [
        pytest.param([(0, 0, 0.9, BOX)], [EASY], 1, 1, id="right"),
        pytest.param([(0, 0, 0.9, CLOSE)], [EASY], 1, 1, id="a half is enough"),
        pytest.param([(0, 0, 0.9, LESS)], [EASY], 0, 0, id="less than a half is not"),
        pytest.param([(1, 0, 0.9, BOX)], [EASY], 0, 0, id="another image"),
        pytest.param([], [EASY], 0, 0, id="no detections"),
        pytest.param([(0, 0, 0.9, BOX)], [], math.nan, math.nan, id="no objects"),
        pytest.param([(0, 0, 0.9, BOX)], [DIFFICULT], math.nan, math.nan, id="all difficult"),
        pytest.param([], [], math.nan, math.nan, id="nothing at all"),
        # false first: precision 1/2 at every recall
        pytest.param([(0, 0, 0.9, FAR), (0, 0, 0.8, BOX)], [EASY], 0.5, 0.5, id="second guess"),
        # right, its duplicate false, right again: precision 1 up to recall 1/2 (6 of 11 points), then 2/3
        pytest.param(
            [(0, 0, 0.9, BOX), (0, 0, 0.8, CLOSE), (1, 0, 0.7, BOX)],
            [EASY, OTHER],
            (6 + 5 * 2 / 3) / 11,
            (1 + 2 / 3) / 2,
            id="a duplicate is false",
        ),
        pytest.param([(0, 0, 0.9, BOX)], [EASY, OTHER], 6 / 11, 0.5, id="half of the objects"),
        # neither right nor false, twice: the difficult one is as if it were not there
        pytest.param(
            [(0, 0, 0.9, BOX), (0, 0, 0.8, BOX), (1, 0, 0.7, BOX)],
            [DIFFICULT, OTHER],
            1,
            1,
            id="difficult objects count for nothing",
        ),
        # equal scores: in the order given
        pytest.param([(0, 0, 0.5, FAR), (0, 0, 0.5, BOX)], [EASY], 0.5, 0.5, id="tie, false first"),
        pytest.param([(0, 0, 0.5, BOX), (0, 0, 0.5, FAR)], [EASY], 1, 1, id="tie, right first"),
        # three of ten: recall 3/10 reaches the points 0, 0.1, 0.2, 0.3 and not fewer
        pytest.param(
            [(i, 0, 0.9, BOX) for i in range(3)],
            [(i, 0, BOX, False) for i in range(10)],
            4 / 11,
            0.3,
            id="a recall that floating point would miss",
        ),
    ],
)
def test_by_hand(found, objects, eleven, area):
    precisions = measured(found, objects)
    assert precisions.eleven_points.item() == pytest.approx(eleven, nan_ok=True)
    assert precisions.area.item() == pytest.approx(area, nan_ok=True)


def test_a_detection_belongs_to_the_object_it_overlaps_most():
    """The second box overlaps both objects by half, the taken one more: it is a duplicate of that one."""
    objects = [(0, 0, [0.0, 0, 1, 1], False), (0, 0, [0.4, 0, 1.4, 1], False)]
    found = [(0, 0, 0.9, [0.0, 0, 1, 1]), (0, 0, 0.8, [0.1, 0, 1.1, 1])]
    assert measured(found, objects).area.item() == pytest.approx(0.5)


def test_means_leave_out_classes_without_objects():
    precisions = measured([(0, 0, 0.9, BOX)], [EASY, (0, 2, BOX, False)], classes=3)
    assert precisions.means() == pytest.approx((0.5, 0.5))


def random_detections(objects: Objects, rng: random.Random) -> list[tuple]:
    """Near objects, far from them, twice, of the wrong class, with scores that are often equal."""
    found = []
    images = int(objects.image.max()) + 1
    for image, label, box in zip(
        objects.image.tolist(), objects.label.tolist(), objects.box.tolist(), strict=True
    ):
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            moved = [edge + rng.gauss(0, 0.04) for edge in box]
            guess = label if rng.random() < 0.9 else rng.randrange(20)
            found.append((image, guess, rng.randrange(8) / 8, moved))
    for _ in range(60):
        x, y = rng.random(), rng.random()
        found.append(
            (rng.randrange(images), rng.randrange(20), rng.random(), [x, y, x + 0.3, y + 0.3])
        )
    rng.shuffle(found)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_brute_force_on_annotations(data_dir, seed):
    objects = VocSource(load("voc2012", "train", root=data_dir, workers=0)).objects()
    assert 0 < int(objects.difficult.sum()) < len(objects.label)
    rows = list(zip(*(each.tolist() for each in objects), strict=True))
    found = random_detections(objects, random.Random(seed))
    found = [(i, c, s, torch.tensor(b).tolist()) for i, c, s, b in found]  # rounded to float32
    ours = measured(found, rows, classes=20)
    for label in range(20):
        verdicts, to_find = brute.judged(found, rows, label)
        assert ours.eleven_points[label].item() == pytest.approx(
            brute.eleven_points(verdicts, to_find), abs=1e-12, nan_ok=True
        )
        assert ours.area[label].item() == pytest.approx(
            brute.area(verdicts, to_find), abs=1e-12, nan_ok=True
        )
    assert 0.05 < ours.means()[0] < 0.95


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_never_right(bad):
    for wrong in ((0, 0, bad, BOX), (0, 0, 0.9, [bad] * 4)):
        assert measured([wrong], [EASY]) == (torch.tensor([0.0]), torch.tensor([0.0]))
        beside = measured([wrong, (0, 0, 0.8, BOX)], [EASY])
        assert beside.area.item() == 0.5  # a false detection before the right one
