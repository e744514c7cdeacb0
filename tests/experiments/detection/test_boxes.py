"""Boxes, default boxes, matching, loss and suppression, against plain readings of their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaf.experiments.detection import boxes, loss, nms
from gaf.experiments.detection.defaults import GRIDS, default_boxes
from tests.experiments.detection import brute

DEFAULTS = default_boxes()


def random_boxes(*shape: int, seed: int = 0, smallest: float = 0.05) -> torch.Tensor:
    number = torch.rand(*shape, 4, generator=torch.Generator().manual_seed(seed))
    start = number[..., :2] * 0.6
    return torch.cat((start, start + smallest + number[..., 2:] * 0.35), dim=-1)


def test_overlaps_are_those_of_brute_force():
    a, b = random_boxes(7), random_boxes(5, seed=1)
    b[0] = a[0]
    b[1, 2:] = b[1, :2]  # nothing
    found = boxes.iou(a, b)
    for i in range(7):
        for j in range(5):
            assert found[i, j].item() == pytest.approx(
                brute.iou(a[i].tolist(), b[j].tolist()), abs=1e-6
            )


def test_encoding_and_back():
    there = random_boxes(len(DEFAULTS))
    torch.testing.assert_close(boxes.decode(boxes.encode(there, DEFAULTS), DEFAULTS), there)
    torch.testing.assert_close(boxes.to_edges(boxes.to_centres(there)), there)


def test_encoding_by_hand():
    default = torch.tensor([0.5, 0.5, 0.2, 0.4])
    box = boxes.to_edges(torch.tensor([0.52, 0.48, 0.4, 0.2]))
    wanted = [0.02 / 0.2 / 0.1, -0.02 / 0.4 / 0.1, math.log(2) / 0.2, math.log(0.5) / 0.2]
    assert boxes.encode(box, default).tolist() == pytest.approx(wanted, abs=1e-4)


def test_numbers_of_an_untrained_network_stay_finite():
    assert boxes.decode(torch.full((4,), 1e4), DEFAULTS[0]).isfinite().all()


def test_default_boxes_are_the_published_ones():
    assert [grid.cells**2 * grid.boxes for grid in GRIDS] == [5776, 2166, 600, 150, 36, 4]
    assert DEFAULTS.shape == (8732, 4)
    # the first cell of the finest grid: squares of 30 and sqrt(30 * 60), then 2 : 1 and 1 : 2
    side = math.sqrt(30 * 60)
    wide, narrow = 30 * math.sqrt(2), 30 / math.sqrt(2)
    first = [(4, 4, 30, 30), (4, 4, side, side), (4, 4, wide, narrow), (4, 4, narrow, wide)]
    torch.testing.assert_close(DEFAULTS[:4], torch.tensor(first) / 300)
    # the second cell is to the right, the second row below
    assert (DEFAULTS[4, :2] * 300).tolist() == pytest.approx([12, 4])
    assert (DEFAULTS[38 * 4, :2] * 300).tolist() == pytest.approx([4, 12])
    # the last, in the middle of the image, upright 1 : 2
    last = [150, 150, 264 / math.sqrt(2), 264 * math.sqrt(2)]
    assert (DEFAULTS[-1] * 300).tolist() == pytest.approx(last)
    # published scales 0.1, 0.2, 0.37, 0.54, 0.71, 0.88 of the small squares
    starts = torch.tensor([0, 5776, 2166, 600, 150, 36]).cumsum(0)
    scales = [0.1, 0.2, 0.37, 0.54, 0.71, 0.88]
    assert DEFAULTS[starts, 2].tolist() == pytest.approx(scales)


def by_hand(labels, truths, defaults):
    """Matching of one image, as the paper reads: its best box for each object, and all above a half."""
    classes, owners = [0] * len(defaults), [None] * len(defaults)
    table = [[brute.iou(t, d) for d in defaults] for t in truths]
    for p in range(len(defaults)):
        best = max(range(len(truths)), key=lambda t: table[t][p], default=None)
        if best is not None and table[best][p] >= 0.5:
            classes[p], owners[p] = labels[best] + 1, best
    for t, row in enumerate(table):
        p = row.index(max(row))
        classes[p], owners[p] = labels[t] + 1, t
    return classes, owners


def test_matching():
    counts = (3, 0, 5)
    labels = torch.full((3, 5), loss.NOTHING)
    truths = torch.zeros(3, 5, 4)
    for row, count in enumerate(counts):
        labels[row, :count] = torch.arange(count) * 3
        truths[row, :count] = random_boxes(count, seed=row)
    truths[2, 4] = truths[2, 3]  # two objects that want the same default box
    few = boxes.to_centres(random_boxes(300, seed=9))  # on the grid some overlaps are equal
    found = loss.match(labels, truths, few)
    edges = boxes.to_edges(few).tolist()
    for row, count in enumerate(counts):
        classes, owners = by_hand(labels[row].tolist(), truths[row, :count].tolist(), edges)
        assert found.classes[row].tolist() == classes
        for p, owner in enumerate(owners):
            if owner is not None:
                torch.testing.assert_close(found.boxes[row, p], truths[row, owner])
        assert (found.classes[row] > 0).sum() >= min(count, 1)


def test_a_batch_without_objects():
    found = loss.match(torch.empty(2, 0, dtype=torch.int64), torch.empty(2, 0, 4), DEFAULTS)
    logits = torch.zeros(2, 8732, 21, requires_grad=True)
    numbers = torch.zeros(2, 8732, 4, requires_grad=True)
    losses = loss.multibox_loss(logits, numbers, found, DEFAULTS)
    assert losses.mean().item() == 0
    assert losses.matched.tolist() == [0, 0]
    losses.mean().backward()
    assert logits.grad is not None
    assert not logits.grad.any()


def test_loss_is_that_of_a_loop():
    generator = torch.Generator().manual_seed(3)
    defaults = DEFAULTS[-190:]
    labels = torch.tensor([[1, 5], [7, loss.NOTHING]])
    truths = random_boxes(2, 2, smallest=0.4)
    logits = torch.randn(2, 190, 21, generator=generator)
    numbers = torch.randn(2, 190, 4, generator=generator)
    found = loss.match(labels, truths, defaults)
    total, matched = 0.0, 0
    for i in range(2):
        surprise = -logits[i].log_softmax(-1)
        positive = [p for p in range(190) if found.classes[i, p] > 0]
        negative = [p for p in range(190) if found.classes[i, p] == 0]
        negative.sort(key=lambda p: -surprise[p, 0].item())
        matched += len(positive)
        total += sum(surprise[p, 0].item() for p in negative[: 3 * len(positive)])
        for p in positive:
            total += surprise[p, int(found.classes[i, p])].item()
            wanted = boxes.encode(found.boxes[i, p], defaults[p])
            for x, y in zip(numbers[i, p].tolist(), wanted.tolist(), strict=True):
                gap = abs(x - y)
                total += 0.5 * gap**2 if gap < 1 else gap - 0.5
    losses = loss.multibox_loss(logits, numbers, found, defaults)
    assert losses.mean().item() == pytest.approx(total / matched, rel=1e-5)
    assert losses.matched.sum() == matched


def test_hard_negatives_end_where_there_are_no_more():
    positive = torch.tensor([[True, True, False, False]])
    chosen = loss.hard_negatives(torch.tensor([[9.0, 9.0, 1.0, 2.0]]), positive)
    assert chosen.tolist() == [[False, False, True, True]]


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from((0.2, 0.45, 0.7)))
def test_suppression_is_greedy(seed, count, threshold):
    there = random_boxes(3, count, seed=seed)
    kept = nms.suppress(there, torch.ones(3, count, dtype=torch.bool), threshold)
    for row in range(3):
        assert kept[row].nonzero()[:, 0].tolist() == brute.suppressed(
            there[row].tolist(), threshold
        )


def test_suppression_of_a_chain():
    """Each box overlaps the next only: every second one stays, which takes many rounds to settle."""
    start = torch.arange(40) * 0.3
    chain = torch.stack((start, torch.zeros(40), start + 1, torch.ones(40)), dim=1)
    kept = nms.suppress(chain, torch.ones(40, dtype=torch.bool), 0.5)
    assert kept.tolist() == [i % 2 == 0 for i in range(40)]


def test_detections_of_a_network():
    logits = torch.full((2, 8732, 21), -20.0)
    logits[..., 0] = 20.0
    logits[0, 100, [0, 3]] = torch.tensor([0.0, 4.0])  # class 2 of the data, twice in one place
    logits[0, 101, [0, 3]] = torch.tensor([0.0, 3.0])
    logits[0, 8000, [0, 8]] = torch.tensor([0.0, 2.0])
    numbers = torch.zeros(2, 8732, 4)
    numbers[0, 101] = boxes.encode(boxes.to_edges(DEFAULTS[100]), DEFAULTS[101])
    found = nms.detect(logits, numbers, DEFAULTS)
    assert found.shape == (2, 200, 6)
    assert found[0, :2, 0].tolist() == [2, 7]
    sure = [1 / (1 + math.exp(-4)), 1 / (1 + math.exp(-2))]
    assert found[0, :2, 1].tolist() == pytest.approx(sure, abs=1e-4)
    expected = boxes.to_edges(DEFAULTS[[100, 8000]]).clamp(0, 1)
    torch.testing.assert_close(found[0, :2, 2:], expected)
    empty = torch.tensor([-1.0, 0, 0, 0, 0, 0])
    assert torch.equal(found[0, 2:], empty.expand(198, 6))
    assert torch.equal(found[1], empty.expand(200, 6))
