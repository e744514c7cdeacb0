"""The pictures of docs/images are those that docs/draw.py draws, and every picture of a page has a text."""

import re
from pathlib import Path

import pytest
from docs import draw

ROOT = Path(__file__).resolve().parent.parent
NUMBER, NAME = re.compile(r"-?\d+\.?\d*"), re.compile(r"\b[mp][0-9a-f]{10}\b")
PICTURE = re.compile(r"!\[(.*?)\]\(")
LARGEST = 100_000  # bytes of an SVG


def same(drawn, kept):
    """The same words, and numbers within a twentieth of a point; names that follow from the numbers aside."""
    texts = [NAME.sub("name", text) for text in (drawn, kept)]
    words, numbers = zip(*((NUMBER.sub("", t), NUMBER.findall(t)) for t in texts), strict=True)
    pairs = zip(*numbers, strict=False)
    return (
        words[0] == words[1]
        and len(numbers[0]) == len(numbers[1])
        and all(abs(float(a) - float(b)) <= 0.05 for a, b in pairs)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in draw.PICTURES if name.endswith(".svg")])
def test_a_picture_is_the_one_that_is_drawn(name):
    kept = (ROOT / "docs" / "images" / name).read_text("utf-8")
    assert same(draw.picture(name).decode(), kept), f"run: python docs/draw.py {name}"
    assert len(kept) <= LARGEST


def test_another_picture_is_noticed():
    kept = (ROOT / "docs" / "images" / "placements.svg").read_text("utf-8")
    assert same(kept, kept)
    assert not same(kept.replace("velocity", "speed"), kept)
    moved = NUMBER.sub(lambda found: f"{float(found[0]) + 1:.2f}", kept)
    assert not same(moved, kept)


def test_every_picture_has_an_alternative_text():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = [text for page in pages for text in PICTURE.findall(page.read_text("utf-8"))]
    assert len(texts) >= 8
    assert all(len(text.split()) >= 3 for text in texts), texts
