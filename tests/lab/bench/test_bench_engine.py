"""`gaf bench --engine`, with very little to do. No test looks at how long anything took."""

import json

import pytest
import torch

from gaf.lab.bench import engine
from gaf.lab.cli.app import run

SMALL = {
    "BATCH": 8,
    "TRAIN": 16,
    "TEST": 8,
    "PHOTOS_BATCH": 4,
    "PHOTOS_TRAIN": 20,
    "PHOTOS_TEST": 10,
}


@pytest.fixture(autouse=True)
def little_to_do(monkeypatch):
    for name, value in {**SMALL, "WORKERS": 0}.items():
        monkeypatch.setattr(engine, name, value)


@pytest.mark.slow
def test_both_paths_are_measured(tmp_path, capsys):
    path = tmp_path / "engine.json"
    assert run(["bench", "--engine", "--repeats", "2", "--threads", "1", "--json", str(path)]) == 0
    out = capsys.readouterr().out
    found = json.loads(path.read_text("utf-8"))
    assert list(found["paths"]) == ["ResNet-8, CIFAR tensors", "ResNet-8, ImageFolder"]
    for name, each in found["paths"].items():
        assert name in out
        assert each["ratio"]["n"] == 2
        assert each["engine"]["images_per_second"]["median"] > 0
    assert found["limit"] == 0.95
    assert "at least" in out
    assert "reached" in out


def test_the_bare_crops_are_windows_of_the_padded_image():
    torch.manual_seed(0)
    images = (
        torch.arange(1, 3 * 32 * 32 + 1, dtype=torch.float32).view(1, 3, 32, 32).repeat(20, 1, 1, 1)
    )
    padded = torch.nn.functional.pad(images[:1], (4, 4, 4, 4))
    windows = padded.unfold(2, 32, 1).unfold(3, 32, 1)[0].permute(1, 2, 0, 3, 4).flatten(0, 1)
    both = torch.cat([windows, windows.flip(3)])
    for crop in engine.crops(images):
        assert (both == crop).flatten(1).all(1).any()


def test_the_engine_goes_on_epoch_by_epoch():
    with engine._tensors() as epochs:
        for _ in range(3):
            epochs["engine"]()
            epochs["bare loop"]()
