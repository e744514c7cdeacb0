"""``gaf detect``: pictures with boxes, JSON, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from gaf.lab.cli.app import run as main
from gaf.lab.cli.detect import summary
from gaf.lab.data.voc import VOC
from gaf.lab.engine.config import override
from gaf.lab.engine.run import train
from gaf.lab.reports.detections import DetectedObject, Detector, colour, draw
from gaf.lab.study import recipes

QUICK = (
    *("epochs=null", "iterations=1", "batch_size=2", "task.data_options.limit=2", "threads=1"),
    *("task.data_options.workers=0", "task.model_options.width=0.03125"),
)


@pytest.fixture(scope="module")
def trained(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAF_DATA", str(data_dir))
        train(override(recipes.get("small-voc-ssd300-sgdm"), QUICK), folder)
    return folder


@pytest.fixture
def photo(data_dir: Path) -> Path:
    return data_dir / "voc-subset/VOCdevkit/VOC2012/JPEGImages/2007_000027.jpg"


def test_pictures_and_json(trained, photo, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GAF_DATA", str(tmp_path))  # the data is not needed
    out = tmp_path / "new" / "pictures"
    args = ["detect", str(trained), str(photo), "--out", str(out), "--score", "0.02", "--json"]
    assert main(args) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["checkpoint"].endswith("step-00000001")
    (found,) = told["images"]
    assert found["image"] == str(photo)
    assert found["found"]
    for each in found["found"]:
        assert each["name"] in VOC
        assert 0.02 <= each["score"] <= 1
        left, top, right, bottom = each["box"]
        assert 0 <= left <= right <= 486
        assert 0 <= top <= bottom <= 500
    with Image.open(photo) as before, Image.open(out / "2007_000027.png") as after:
        assert after.size == before.size == (486, 500)
        assert after.tobytes() != before.tobytes()


def test_lines_and_a_checkpoint_by_name(trained, photo, tmp_path, capsys):
    step = trained / "checkpoints" / "step-00000001"
    assert main(["detect", str(step), str(photo), "--out", str(tmp_path), "--score", "1"]) == 0
    assert capsys.readouterr().out == f"{photo}: nothing; in {tmp_path / '2007_000027.png'}\n"


def test_a_checkpoint_from_within_its_folder(trained, photo, tmp_path, monkeypatch):
    monkeypatch.chdir(trained / "checkpoints")
    assert main(["detect", "step-00000001", str(photo), "--out", str(tmp_path)]) == 0


def test_where_nothing_is_found_a_score_of_0_shows_nothing(trained, photo):
    detector = Detector(trained)
    with torch.no_grad():
        for head in detector.model.class_heads:
            head.bias.view(-1, len(VOC) + 1)[:, 0] = 1000.0  # all is background
    assert detector(photo, 0.0)[1] == []


def test_what_is_wrong_is_said_in_a_line(trained, photo, tmp_path, capsys):
    text = tmp_path / "text.jpg"
    text.write_text("no image")
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(photo.read_bytes()[:3000])
    wide = tmp_path / "wide.tiff"
    Image.new("F", (9, 9)).save(wide)
    (tmp_path / "file").write_text("")
    other = tmp_path / "digits"
    train(
        override(recipes.get("digits-cnn-sgdm"), ["epochs=1", "task.data_options.limit=20"]), other
    )
    for args, reason in (
        ([trained, tmp_path / "none.jpg"], "none.jpg cannot be read: No such file"),
        ([trained, text], "text.jpg is no image that can be read"),
        ([trained, cut], "cut.jpg cannot be read: image file is truncated"),
        ([trained, wide], "wide.tiff cannot be read: its pixels have 32 bits"),
        ([trained, tmp_path], "is a folder: name the images in it"),
        ([tmp_path / "none", photo], "holds no run"),
        ([other, photo], "holds a classification run"),
        ([trained, photo, photo], "two images would become"),
        ([trained, photo, "--out", tmp_path / "file"], "cannot be written"),
        ([trained, photo, "--score", 2], "--score"),
        ([trained], "IMAGE"),
    ):
        assert main(["detect", *map(str, args)]) == 2, args
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1
        assert reason in lines[0]


def test_odd_images(trained, photo, tmp_path, capsys):
    """Any mode, any shape; a photograph that a camera has noted to be turned is seen upright."""
    with Image.open(photo) as image:
        modes = [image.convert(mode) for mode in ("L", "RGBA", "CMYK", "P")]
        shapes = [image.resize(size) for size in ((1, 1), (3000, 2), (2, 3000))]
        deep = image.convert("L").convert("I").convert("I;16")
        paths = []
        for number, each in enumerate((*modes, *shapes, deep)):
            paths.append(tmp_path / f"{number}.{'jpg' if each.mode == 'CMYK' else 'png'}")
            each.save(paths[-1])
        exif = image.getexif()
        exif[0x112] = 6
        paths.append(tmp_path / "turned.jpg")
        image.save(paths[-1], exif=exif)
        sizes = [*(image.size for _ in modes), *(each.size for each in shapes), image.size]
    out = tmp_path / "out"
    args = ["detect", str(trained), *map(str, paths), "--out", str(out), "--score", "0.9"]
    assert main(args) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(paths)
    for path, size in zip(paths, [*sizes, (500, 486)], strict=True):
        with Image.open(out / f"{path.stem}.png") as picture:
            assert picture.size == size, path


def test_a_crowd_is_told_in_a_few_words():
    box = (0.0, 0.0, 1.0, 1.0)
    rows = [("dog", 0.9), ("cat", 0.8), ("dog", 0.7), ("dog", 0.6)]
    assert summary([DetectedObject(*row, box) for row in rows]) == "3 x dog up to 0.90, cat 0.80"


def test_a_damaged_checkpoint_is_refused(trained, photo, tmp_path, capsys):
    step = trained / "checkpoints" / "step-00000001"
    part = step / "part-0.pt"
    whole = part.read_bytes()
    try:
        part.write_bytes(whole[:-1])
        assert main(["detect", str(step), str(photo), "--out", str(tmp_path)]) == 2
        assert "part-0.pt is not what was written" in capsys.readouterr().err
    finally:
        part.write_bytes(whole)


def test_a_frame_and_a_label():
    image = Image.new("RGB", (200, 150), "white")
    picture = draw(image, [DetectedObject("dog", 0.9, (50.0, 60.0, 150.0, 140.0))])
    assert image.getpixel((50, 100)) == (255, 255, 255)  # the image itself is left alone
    ink = colour("dog")
    for at in ((50, 100), (149, 100), (100, 60), (100, 139)):
        assert picture.getpixel(at) == ink
    assert picture.getpixel((100, 100)) == (255, 255, 255)
    assert picture.getpixel((51, 50)) == ink  # the label's ground, above the box


def test_labels_stay_in_the_picture():
    image = Image.new("RGB", (120, 90), "white")
    at_corner = draw(image, [DetectedObject("motorbike", 1.0, (100.0, 0.0, 120.0, 30.0))])
    assert at_corner.getpixel((118, 3)) == colour("motorbike")
    assert len({colour(name) for name in VOC}) == 20
