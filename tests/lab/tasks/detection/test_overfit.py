"""A slim SSD300 learns a few images by heart, with and without f, and shows what it has learned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gaf.lab.cli.app import run
from gaf.lab.data import voc
from gaf.lab.engine.config import override
from gaf.lab.engine.run import train
from gaf.lab.study import recipes
from tests.lab.tasks.detection import brute

IMAGES = 4
STEPS = 170
ENOUGH = 0.9


def some_images(data_dir: Path, root: Path) -> Path:
    """A VOC2012 of the first images with one to three objects, to train and to test on."""
    source = data_dir / "voc-subset/VOCdevkit/VOC2012"
    folder = root / "VOCdevkit/VOC2012"
    for kind in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / kind).mkdir(parents=True)
    names = []
    for name in (source / "ImageSets/Main/train.txt").read_text().split():
        path, image = source / f"Annotations/{name}.xml", source / f"JPEGImages/{name}.jpg"
        found = voc.parse(path.read_bytes(), path, image)
        if 1 <= len(found.labels) <= 3 and not any(found.difficult) and len(names) < IMAGES:
            names.append(name)
            shutil.copy(path, folder / "Annotations")
            shutil.copy(image, folder / "JPEGImages")
    for split in ("train", "val"):
        (folder / f"ImageSets/Main/{split}.txt").write_text("\n".join(names))
    return folder


def settings(root: Path, activation: str | None) -> list[str]:
    """Adam, which takes a third of SGDM's steps here; no augmentation, one evaluation, one checkpoint."""
    options = {"root": str(root), "augment": False, "workers": 0}
    return [
        *("task.data=voc2012", f"task.data_options={json.dumps(options)}", "threads=1"),
        *("task.model_options.width=0.0625", f"batch_size={IMAGES}", "optimizer.lr=0.003"),
        *("optimizer.name=adam", "optimizer.momentum=0", "optimizer.weight_decay=0"),
        *(f"optimizer.activation={json.dumps(activation)}", "schedule.warmup=10"),
        *("epochs=null", f"iterations={STEPS}", "evaluate_every=0"),
        *(f"checkpoint_every={STEPS}", "log_every=10", "accelerator=cpu"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("activation", [None, "arctan(0.1, 20)"], ids=["without", "with"])
def test_images_by_heart(activation, data_dir, tmp_path, capsys):
    folder = some_images(data_dir, tmp_path)
    runs = tmp_path / "run"
    result = train(
        override(recipes.get("small-voc-ssd300-sgdm"), settings(tmp_path, activation)), runs
    )
    assert result.score > ENOUGH
    assert result.final["mAP_area"] > ENOUGH
    # and it finds them again through the command
    capsys.readouterr()
    images = sorted(map(str, (folder / "JPEGImages").iterdir()))
    args = [
        "detect",
        str(runs),
        *images,
        "--out",
        str(tmp_path / "out"),
        "--score",
        "0.4",
        "--json",
    ]
    assert run(args) == 0
    seen = json.loads(capsys.readouterr().out)["images"]
    assert len(seen) == IMAGES
    found = wanted = 0
    for each in seen:
        path = folder / "Annotations" / f"{Path(each['image']).stem}.xml"
        truth = voc.parse(path.read_bytes(), path, Path(each["image"]))
        width, height = truth.size
        for label, box in zip(truth.labels, truth.boxes, strict=True):
            pixels = [edge * side for edge, side in zip(box, (width, height) * 2, strict=True)]
            wanted += 1
            found += any(
                one["name"] == voc.VOC[label] and brute.iou(one["box"], pixels) >= 0.5
                for one in each["found"]
            )
    assert found >= 0.8 * wanted
