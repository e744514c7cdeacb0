"""Augmentation: boxes stay valid and on their objects, whatever chance brings; colours do what they say."""

from __future__ import annotations

import colorsys
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from gaf.lab.tasks.detection import augment
from gaf.lab.tasks.detection.augment import Colours, Window, boxes_in, random_window, view
from tests.lab.tasks.detection import brute

edge = st.floats(0, 1, width=32)


@st.composite
def some_boxes(draw) -> torch.Tensor:
    rows = []
    for _ in range(draw(st.integers(0, 6))):
        left, right = sorted((draw(edge), draw(edge)))
        top, bottom = sorted((draw(edge), draw(edge)))
        if right - left > 0.002 and bottom - top > 0.002:
            rows.append([left, top, right, bottom])
    return torch.tensor(rows).view(-1, 4)


@settings(max_examples=40)
@given(some_boxes(), st.floats(0.2, 5), st.integers(0, 2**32))
def test_boxes_stay_valid(boxes, shape, seed):
    window = random_window(boxes, shape, random.Random(seed))
    seen, kept = boxes_in(window, boxes)
    left, top, right, bottom = window.edges
    assert 0.29 < right - left <= augment.EXPAND + 1e-9
    assert 0.29 < bottom - top <= augment.EXPAND + 1e-9
    assert len(seen) == int(kept.sum())
    assert (seen >= 0).all()
    assert (seen <= 1).all()
    assert (seen[:, 2:] > seen[:, :2]).all()
    # each is the part of its own box that the window shows
    for box, was in zip(seen.tolist(), boxes[kept].tolist(), strict=True):
        x = [left + share * (right - left) for share in (box[0], box[2])]
        if window.mirrored:
            x = [left + (1 - share) * (right - left) for share in (box[2], box[0])]
        y = [top + share * (bottom - top) for share in (box[1], box[3])]
        assert x == pytest.approx([max(was[0], left), min(was[2], right)], abs=1e-5)
        assert y == pytest.approx([max(was[1], top), min(was[3], bottom)], abs=1e-5)
    centres = [((b[0] + b[2]) / 2, (b[1] + b[3]) / 2) for b in boxes.tolist()]
    for (x, y), there in zip(centres, kept.tolist(), strict=True):
        inside = left - 1e-6 <= x <= right + 1e-6 and top - 1e-6 <= y <= bottom + 1e-6
        assert inside or not there
    if len(boxes):  # some object is always seen, unless a sliver of it only
        assert augment.inside(
            boxes.double(), torch.tensor([window.edges], dtype=torch.float64)
        ).any()


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.floats(0.3, 3))
def test_crops_are_as_asked(seed, shape):
    """Where a crop was made, it overlaps some object by one of the demands, in a shape that is allowed."""
    boxes = torch.tensor([[0.1, 0.2, 0.5, 0.6], [0.6, 0.1, 0.9, 0.3]])
    crop = augment._cropped(augment.WHOLE, boxes, shape, random.Random(seed))
    if crop == augment.WHOLE:
        return
    assert min(crop) >= 0
    assert max(crop) <= 1
    width, height = crop[2] - crop[0], crop[3] - crop[1]
    assert 0.5 - 1e-9 <= width * shape / height <= 2 + 1e-9
    demand = [number for number in augment.OVERLAPS if number is not None]
    asked = random.Random(seed).choice(augment.OVERLAPS)
    best = max(brute.iou(crop, box) for box in boxes.tolist())
    assert best >= min(demand)
    if asked is not None and best < asked - 1e-9:  # its 50 tries failed, and another was drawn
        first = augment._tries(augment.WHOLE, _after_choice(seed))
        overlaps = [max(brute.iou(each, b) for b in boxes.tolist()) for each in first.tolist()]
        shapes = [(c[2] - c[0]) * shape / (c[3] - c[1]) for c in first.tolist()]
        assert not any(
            o >= asked + 1e-6 and 0.5 <= s <= 2 for o, s in zip(overlaps, shapes, strict=True)
        )


def _after_choice(seed: int) -> random.Random:
    rng = random.Random(seed)
    rng.choice(augment.OVERLAPS)
    return rng


def test_windows_vary():
    boxes = torch.tensor([[0.2, 0.2, 0.8, 0.8]])
    windows = [random_window(boxes, 1.3, random.Random(seed)) for seed in range(200)]
    assert len({each.edges for each in windows}) > 150
    assert 60 < sum(each.mirrored for each in windows) < 140
    assert 50 < sum(each.edges[2] - each.edges[0] > 1 for each in windows) < 150
    assert any(each.edges == augment.WHOLE for each in windows)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(60, 400), st.integers(60, 400))
def test_a_box_stays_on_its_object(seed, width, height):
    """A white rectangle on black, drawn where the box is, is seen where the box has gone."""
    rng = random.Random(seed)
    x, y = rng.randrange(width - 40), rng.randrange(height - 40)
    right, bottom = rng.randrange(x + 30, width), rng.randrange(y + 30, height)
    image = Image.new("RGB", (width, height))
    ImageDraw.Draw(image).rectangle((x, y, right - 1, bottom - 1), fill="white")
    box = torch.tensor([[x / width, y / height, right / width, bottom / height]])
    window = random_window(box, width / height, rng)
    seen, _ = boxes_in(window, box)
    pixels = view(image, 300, window)[0]
    white = (pixels > 127).nonzero()
    found = [*white.amin(0).flip(0).tolist(), *(white.amax(0) + 1).flip(0).tolist()]
    # half a pixel of the view, or of a small image that is enlarged
    least = 1.5 + 300 / min(width, height) / (window.edges[2] - window.edges[0])
    assert found == pytest.approx((seen[0] * 300).tolist(), abs=least)


def test_what_lies_around_is_grey():
    image = Image.new("RGB", (50, 40), "white")
    seen = view(image, 100, Window((-1.0, 0.0, 1.0, 2.0)), around=(10.0, 20.0, 30.0))
    assert (seen[:, :50, 50:] == 255).all()
    assert seen[:, 0, 0].tolist() == seen[:, 99, 99].tolist() == [10, 20, 30]
    mirrored = view(image, 100, Window((-1.0, 0.0, 1.0, 2.0), True), around=(10.0, 20.0, 30.0))
    assert torch.equal(mirrored, seen.flip(2))


channel = st.integers(0, 255)


@given(st.tuples(channel, channel, channel), st.floats(0.5, 1.5), st.floats(-18, 18))
def test_colours_against_colorsys(rgb, saturation, hue):
    pixel = torch.tensor(rgb, dtype=torch.float32).view(3, 1, 1)
    h, s, v = colorsys.rgb_to_hsv(*(each / 255 for each in rgb))
    wanted = colorsys.hsv_to_rgb((h + hue / 360) % 1, min(1.0, s * saturation), v)
    found = augment.shift_colours(pixel, saturation, hue).view(3) / 255
    assert found.tolist() == pytest.approx(wanted, abs=1e-4)


def test_brightness_and_contrast():
    image = torch.full((3, 2, 2), 100.0)
    assert Colours(brightness=20)(image)[0, 0, 0] == 120
    assert Colours(contrast=1.5)(image)[0, 0, 0] == 150
    assert Colours(contrast=1.5, contrast_first=False)(image)[0, 0, 0] == 150
    assert Colours(brightness=200)(image)[0, 0, 0] == 255
    assert torch.equal(Colours()(image), image)


def test_every_second_image_is_distorted():
    every = [augment.random_colours(random.Random(seed)) for seed in range(400)]
    for position, unchanged in enumerate((0.0, 1.0, 1.0, 0.0)):
        assert 150 < sum(each[position] != unchanged for each in every) < 250
    assert all(abs(each.brightness) <= 32 and 0.5 <= each.contrast <= 1.5 for each in every)
