"""Detection through the engine: what is refused, what is measured, how it resumes, over two processes too."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gaf.lab.data.voc import VOC
from gaf.lab.engine.config import TaskConfig, override
from gaf.lab.engine.run import read_result, train
from gaf.lab.study import recipes
from gaf.lab.study.recipes import paper
from gaf.lab.tasks import load_task
from gaf.lab.tasks.detection import Detection
from tests.lab.engine.processes import together

BASE = "small-voc-ssd300-sgdm"
QUICK = (
    *("epochs=null", "iterations=2", "batch_size=2", "task.data_options.limit=4"),
    *("task.data_options.workers=0", "task.model_options.width=0.03125", "threads=1"),
)


@pytest.fixture(autouse=True)
def _data(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes find the subset through GAF_DATA."""
    monkeypatch.setenv("GAF_DATA", str(data_dir))


def config(name: str = BASE, *changes: str):
    return override(recipes.get(name), [*QUICK, *changes])


@pytest.mark.parametrize(
    ("kind", "data", "model", "reason"),
    [
        ("detection", "digits", "ssd300", "digits has no boxes to find; use voc"),
        ("detection", "voc", "resnet8-cifar", "resnet8-cifar is no detector; .* takes ssd300"),
        ("classification", "digits", "ssd300", "want task.kind=detection"),
        ("classification", "voc", "resnet8-cifar", "want task.kind=detection"),
        (
            "detektion",
            "voc",
            "ssd300",
            "unknown kind of task 'detektion'; did you mean 'detection'",
        ),
    ],
)
def test_what_does_not_fit(kind, data, model, reason):
    options = {"width": 0.03125} if model == "ssd300" else {}
    task_config = TaskConfig(kind=kind, data=data, model=model, model_options=options)
    with pytest.raises(ValueError, match=reason):
        checked(task_config)


def checked(task_config: TaskConfig) -> None:
    task = load_task(task_config)
    task.check(task.build_model())


def test_label_smoothing_is_refused():
    with pytest.raises(ValueError, match="no label smoothing"):
        Detection(TaskConfig(kind="detection", data="voc", model="ssd300", label_smoothing=0.1))


def test_metrics_of_perfect_and_of_no_detections():
    task = load_task(config().task)
    source = task.test_source()
    objects = source.objects()
    found = torch.zeros(len(source), 200, 6)
    found[..., 0] = -1
    empty = {"found": found.clone(), "loss": torch.ones(4), "matched": torch.tensor([1, 2, 3, 2])}
    seen = task.metrics(empty)
    assert (seen["loss"], seen["mAP"], seen["mAP_area"]) == (0.5, 0.0, 0.0)
    for place, (image, label, box) in enumerate(zip(*objects[:3], strict=True)):
        found[image, place] = torch.cat((torch.tensor([float(label), 0.9]), box))
    seen = task.metrics({**empty, "found": found})
    assert (seen["mAP"], seen["mAP_area"]) == (1.0, 1.0)
    named = {name.partition("/")[2] for name in seen if name.startswith("AP/")}
    assert named == {VOC[label] for label in objects.label[~objects.difficult].tolist()}


def test_table_4_finds_the_figure_of_each_class_by_its_name():
    """``AP/<class>`` is written by the data's names and read by the paper's: a typo would leave a gap."""
    assert paper.VOC_CLASSES == VOC


@pytest.mark.slow
def test_two_steps_are_recorded_and_resumed(tmp_path):
    """The engine as it is: a run that is cut after a step ends with the same weights and figures."""
    whole = train(config(BASE, "checkpoint_every=1"), tmp_path / "whole")
    assert math.isfinite(whole.final["loss"])
    assert 0 <= whole.score <= 1
    assert whole.score_name == "mAP"
    records = (tmp_path / "whole/metrics.jsonl").read_text().splitlines()
    last = [each for each in map(json.loads, records) if each["kind"] == "test"][-1]
    assert any(name.startswith("AP_area/") for name in last)
    # as if killed after the first step
    cut = tmp_path / "cut"
    train(config(BASE, "checkpoint_every=1"), cut)
    (cut / "finished.json").unlink()
    for path in (cut / "checkpoints").glob("step-00000002"):
        path.rename(cut / "gone")
    again = train(config(BASE, "checkpoint_every=1"), cut)
    assert again.final == whole.final


@pytest.mark.slow
def test_two_processes_measure_what_one_does(data_dir, tmp_path):
    """A rate of nearly 0 keeps the models alike: the detections of all test images meet in one place."""
    still = ["optimizer.lr=1e-12", "iterations=1", "task.data_options.limit=5", "accelerator=cpu"]
    still.append(f"task.data_options.root={data_dir}")
    one = train(config(BASE, *still), tmp_path / "one")
    sets = [part for each in (*QUICK, *still) for part in ("--set", each)]
    together(2, ["train", BASE, "--out", str(tmp_path / "two"), *sets])
    assert read_result(tmp_path / "two").final == pytest.approx(one.final, rel=1e-4)


WITHOUT_TORCHVISION = """
import sys
sys.modules["torchvision"] = None  # whoever imports it gets an ImportError
from gaf.lab.cli.app import run
quick = {quick!r}
sets = [part for each in quick for part in ("--set", each)]
assert run(["train", "ssd300-voc-small", "--out", "run", *sets]) == 0
assert run(["detect", "run", {photo!r}, "--out", "pictures"]) == 0
"""


@pytest.mark.slow
def test_everything_works_without_torchvision(data_dir, tmp_path):
    """Training, suppression, the metric and pictures, in a process that cannot import it."""
    photo = data_dir / "voc-subset/VOCdevkit/VOC2012/JPEGImages/2007_000027.jpg"
    code = WITHOUT_TORCHVISION.format(quick=QUICK, photo=str(photo))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "mAP" in done.stdout
    assert (tmp_path / "pictures/2007_000027.png").is_file()
