"""Boxes, default boxes, matching, loss and suppression, against plain readings of their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaf.lab.tasks.detection import boxes, loss
from gaf.lab.tasks.detection.boxes import GRIDS, default_boxes
from tests.lab.tasks.detection import brute

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


# The published design: cells of a side, pixels from one to the next, sides of both squares, ratios.
PUBLISHED = (
    (38, 8, 30, 60, (2,)),
    (19, 16, 60, 111, (2, 3)),
    (10, 32, 111, 162, (2, 3)),
    (5, 64, 162, 213, (2, 3)),
    (3, 100, 213, 264, (2,)),
    (1, 300, 264, 315, (2,)),
)


def test_default_boxes_are_the_published_ones():
    assert [grid.cells**2 * grid.boxes for grid in GRIDS] == [5776, 2166, 600, 150, 36, 4]
    expected = []
    for cells, step, small, large, ratios in PUBLISHED:
        shapes = [(small, small), (math.sqrt(small * large),) * 2]
        for ratio in map(math.sqrt, ratios):
            shapes += [(small * ratio, small / ratio), (small / ratio, small * ratio)]
        for row in range(cells):
            for column in range(cells):
                centre = (column + 0.5) * step, (row + 0.5) * step
                expected += [(*centre, *shape) for shape in shapes]
    assert DEFAULTS.shape == (8732, 4)
    torch.testing.assert_close(DEFAULTS, torch.tensor(expected) / 300)


def by_hand(labels, truths, defaults):
    """Matching of one image as SSD's authors do it: pair by pair, then all boxes above a half."""
    owners: list[int | None] = [None] * len(defaults)
    table = [[brute.iou(t, d) for d in defaults] for t in truths]
    left = set(range(len(truths)))
    while left:
        share, t, p = max(
            ((table[t][p], -t, -p) for t in left for p, o in enumerate(owners) if o is None),
            default=(0, 0, 0),
        )
        if not share:
            break
        owners[-p] = -t
        left.remove(-t)
    for p, owner in enumerate(owners):
        best = max(range(len(truths)), key=lambda t, p=p: table[t][p], default=None)
        if owner is None and best is not None and table[best][p] >= 0.5:
            owners[p] = best
    return [0 if owner is None else labels[owner] + 1 for owner in owners], owners


@pytest.mark.parametrize("seed", range(8))
def test_matching(seed):
    counts = (3, 0, 9)
    labels = torch.full((3, 9), loss.NOTHING)
    truths = torch.zeros(3, 9, 4, dtype=torch.float64)
    for row, count in enumerate(counts):
        labels[row, :count] = torch.arange(count) * 2
        truths[row, :count] = random_boxes(count, seed=10 * seed + row)
    truths[2, 3:6] = truths[2, 2]  # four objects that want the same default box
    # on the grid some overlaps are equal; of few boxes many are wanted twice
    few = boxes.to_centres(random_boxes((12, 300)[seed % 2], seed=seed).double())
    found = loss.match(labels, truths, few)
    edges = boxes.to_edges(few).tolist()
    for row, count in enumerate(counts):
        classes, owners = by_hand(labels[row].tolist(), truths[row, :count].tolist(), edges)
        assert found.classes[row].tolist() == classes
        for p, owner in enumerate(owners):
            if owner is not None:
                torch.testing.assert_close(found.boxes[row, p], truths[row, owner])


def test_each_object_has_a_box_of_its_own():
    """A crowd in one place: all want the same default box, and none goes without."""
    truths = random_boxes(1, 1, seed=4).expand(1, 20, 4)
    found = loss.match(torch.arange(20)[None], truths, DEFAULTS)
    assert set(found.classes.unique().tolist()) == set(range(21))


def test_an_object_beyond_all_boxes_has_none():
    truths = torch.tensor([[[0.3, 0.3, 0.3, 0.3], [0.1, 0.1, 0.5, 0.5]]])  # the first has no area
    found = loss.match(torch.tensor([[4, 7]]), truths, DEFAULTS)
    assert found.classes.unique().tolist() == [0, 8]


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
    kept = boxes.suppress(there, torch.ones(3, count, dtype=torch.bool), threshold)
    for row in range(3):
        assert kept[row].nonzero()[:, 0].tolist() == brute.suppressed(
            there[row].tolist(), threshold
        )


def test_suppression_of_a_chain():
    """Each box overlaps the next only: every second one stays, which takes many rounds to settle."""
    start = torch.arange(40) * 0.3
    chain = torch.stack((start, torch.zeros(40), start + 1, torch.ones(40)), dim=1)
    kept = boxes.suppress(chain, torch.ones(40, dtype=torch.bool), 0.5)
    assert kept.tolist() == [i % 2 == 0 for i in range(40)]


def test_detections_of_a_network():
    logits = torch.full((2, 8732, 21), -20.0)
    logits[..., 0] = 20.0
    logits[0, 100, [0, 3]] = torch.tensor([0.0, 4.0])  # class 2 of the data, twice in one place
    logits[0, 101, [0, 3]] = torch.tensor([0.0, 3.0])
    logits[0, 8000, [0, 8]] = torch.tensor([0.0, 2.0])
    numbers = torch.zeros(2, 8732, 4)
    numbers[0, 101] = boxes.encode(boxes.to_edges(DEFAULTS[100]), DEFAULTS[101])
    found = boxes.detect(logits, numbers, DEFAULTS)
    assert found.shape == (2, 200, 6)
    assert found[0, :2, 0].tolist() == [2, 7]
    sure = [1 / (1 + math.exp(-4)), 1 / (1 + math.exp(-2))]
    assert found[0, :2, 1].tolist() == pytest.approx(sure, abs=1e-4)
    expected = boxes.to_edges(DEFAULTS[[100, 8000]]).clamp(0, 1)
    torch.testing.assert_close(found[0, :2, 2:], expected)
    empty = torch.tensor([-1.0, 0, 0, 0, 0, 0])
    assert torch.equal(found[0, 2:], empty.expand(198, 6))
    assert torch.equal(found[1], empty.expand(200, 6))


def detections_of(edges, scores):
    """Boxes of one class with these scores, at any default boxes."""
    defaults = torch.full((len(edges), 4), 0.5)
    logits = torch.zeros(1, len(edges), 2)
    logits[0, :, 1] = torch.logit(torch.tensor(scores))
    numbers = boxes.encode(torch.tensor(edges), defaults)[None]
    found = boxes.detect(logits, numbers, defaults)[0]
    return found[found[:, 0] >= 0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("what", ["logits", "numbers"])
def test_outputs_that_are_not_finite_give_no_detection(what, bad):
    """The box beside them is still found; 250 bad ones do not push it out of the candidates."""
    defaults = torch.full((251, 4), 0.5)
    given = {"logits": torch.zeros(1, 251, 2), "numbers": torch.zeros(1, 251, 4)}
    given["logits"][0, :, 1] = torch.cat((torch.full((250,), 5.0), torch.tensor([3.0])))
    given[what][0, :250, 1] = bad
    found = boxes.detect(given["logits"], given["numbers"], defaults)[0]
    assert found.isfinite().all()
    assert found[found[:, 0] >= 0][:, 1].tolist() == pytest.approx([1 / (1 + math.exp(-3))])


@pytest.mark.parametrize(("overlap", "kept"), [(0.44, 2), (0.46, 1)])
def test_two_boxes_are_one_object_from_an_overlap_of_045(overlap, kept):
    shift = 0.2 * (1 - overlap) / (1 + overlap)
    edges = [(0.1, 0.1, 0.3, 0.3), (0.1 + shift, 0.1, 0.3 + shift, 0.3)]
    assert len(detections_of(edges, [0.9, 0.8])) == kept


def test_the_uncertain_are_dropped():
    edges = [(0.1, 0.1, 0.2, 0.2), (0.5, 0.5, 0.6, 0.6)]
    assert detections_of(edges, [0.009, 0.011])[:, 1].tolist() == pytest.approx([0.011], abs=1e-5)


def test_two_hundred_boxes_of_a_class():
    places = [(0.06 * (i % 16), 0.06 * (i // 16)) for i in range(250)]
    edges = [(x, y, x + 0.05, y + 0.05) for x, y in places]
    scores = [0.9 - 0.001 * i for i in range(250)]
    assert len(detections_of(edges, scores)) == 200
    assert len(detections_of(edges[:150], scores[:150])) == 150


@pytest.mark.parametrize(("crowd", "kept"), [(199, 2), (200, 1)])
def test_suppression_looks_at_two_hundred_of_a_class(crowd, kept):
    """A crowd that is one object takes the place of what comes after it."""
    edges = [*[(0.1, 0.1, 0.3, 0.3)] * crowd, (0.6, 0.6, 0.8, 0.8)]
    assert len(detections_of(edges, [*[0.9] * crowd, 0.8])) == kept


def test_boxes_are_cut_after_suppression():
    """Cut at the edge the two would be one box; a box outside the image is none."""
    edges = [(-0.3, 0.1, 0.1, 0.2), (-0.05, 0.1, 0.1, 0.2), (-0.4, 0.1, -0.1, 0.2)]
    found = detections_of(edges, [0.9, 0.8, 0.7])
    wanted = [(0.0, 0.1, 0.1, 0.2)] * 2
    torch.testing.assert_close(found[:, 2:], torch.tensor(wanted), rtol=0, atol=1e-5)
