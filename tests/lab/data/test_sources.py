"""A sample is a function of (seed, epoch, index): not of the batch, the order or the process."""

import pytest
import torch

from gaf.lab.data import DataError, DatasetMissing, load
from gaf.lab.data.catalog import DATASETS
from gaf.lab.data.layouts import balanced, default_root

CPU = torch.device("cpu")


def take(source, indices, seed=0, epoch=0):
    found = list(source.batches(indices, seed=seed, epoch=epoch, device=CPU))
    return torch.cat([x for x, _ in found]), torch.cat([y for _, y in found])


@pytest.fixture(scope="module")
def cifar(data_dir):
    return load("cifar100", "train", root=data_dir, limit=500)


def test_cutting_an_epoch_otherwise_changes_nothing(cifar):
    order = torch.randperm(500, generator=torch.Generator().manual_seed(0))
    images, labels = take(cifar, order.split(128), epoch=3)
    for size in (1, 7, 500):
        again, same = take(cifar, order.split(size), epoch=3)
        assert torch.equal(again, images)
        assert torch.equal(same, labels)
    for rank in range(2):  # as two processes see it
        assert torch.equal(take(cifar, [order[rank::2]], epoch=3)[0], images[rank::2])
    resumed = take(cifar, order.split(128)[2:], epoch=3)[0]
    assert torch.equal(resumed, images[256:])


def test_seed_and_epoch_change_the_crops(cifar):
    whole = [torch.arange(500)]
    images = take(cifar, whole)[0]
    assert torch.equal(take(cifar, whole)[0], images)
    for other in (take(cifar, whole, seed=1)[0], take(cifar, whole, epoch=1)[0]):
        same = (other == images).flatten(1).all(1).float().mean()
        assert same < 0.05  # 1 of 162 by chance


def test_without_augmentation_the_pixels_are_those_of_the_file(data_dir, contents):
    source = load("cifar100", "test", root=data_dir)
    chosen = (3, contents.cifar100[1] - 1)
    images, labels = take(source, [torch.tensor(chosen)])
    raw = (data_dir / "cifar-100-subset/cifar-100-binary/test.bin").read_bytes()
    for row, index in enumerate(chosen):
        record = raw[index * 3074 : (index + 1) * 3074]
        pixels = torch.tensor(list(record[2:]), dtype=torch.float64).view(3, 32, 32)
        mean = torch.tensor([0.5071, 0.4867, 0.4408], dtype=torch.float64).view(3, 1, 1)
        std = torch.tensor([0.2675, 0.2565, 0.2761], dtype=torch.float64).view(3, 1, 1)
        assert torch.allclose(images[row].double(), (pixels / 255 - mean) / std, atol=1e-6)
        assert labels[row] == record[1]


def test_a_batch_is_what_a_model_takes(cifar):
    (images, labels), *rest = cifar.batches(
        [torch.arange(64), torch.arange(3)], seed=0, epoch=0, device=CPU
    )
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert images.shape == (64, *cifar.shape)
    assert images.is_contiguous()
    assert len(rest[0][1]) == 3


def test_digits_need_nothing_on_disk(tmp_path):
    train, test = (load("digits", split, root=tmp_path) for split in ("train", "test"))
    assert (len(train), len(test), train.shape) == (1438, 359, (1, 8, 8))
    assert train.classes == tuple("0123456789")
    images, labels = take(train, [torch.arange(len(train))])
    assert abs(images.mean()) < 0.02
    assert abs(images.std() - 1) < 0.02
    assert set(labels.tolist()) == set(range(10))
    assert train.fingerprint == test.fingerprint


def test_limit_is_balanced(cifar, data_dir):
    assert torch.equal(torch.bincount(cifar.targets), torch.full((100,), 5))
    few = load("cifar100", "train", root=data_dir, limit=130)
    assert torch.bincount(few.targets, minlength=100).unique().tolist() == [1, 2]
    assert len(load("digits", "train", limit=10**9)) == 1438


def test_balanced_takes_what_there_is():
    targets = torch.tensor([2, 2, 2, 0])  # class 1 has none
    assert balanced(targets, 2).tolist() == [0, 3]
    assert balanced(targets, 3).tolist() == [0, 1, 3]


def test_the_root_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("GAF_DATA", str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.delenv("GAF_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_root() == tmp_path / "cache/gaf/data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_root() == tmp_path / ".cache/gaf/data"


@pytest.mark.parametrize("name", [n for n, d in DATASETS.items() if d.layouts])
def test_a_missing_dataset_says_how_to_get_it(name, tmp_path):
    with pytest.raises(DatasetMissing) as caught:
        load(name, "train", root=tmp_path)
    by_hand = {"imagenet": "https://image-net.org", "text": "tinyshakespeare/input.txt as "}
    how = by_hand.get(name, f"gaf data get {name}")
    assert how in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "cifar1000"}, "did you mean 'cifar100'"),
        ({"split": "val"}, "'train' or 'test'"),
        ({"limit": 0}, "limit"),
        ({"limit": "ten"}, "limit is a whole number"),
        ({"augment": "yes"}, "augment is true or false"),
        ({"workers": -1}, "workers"),
        ({"size": 0}, "size"),
        ({"size": 64}, "leave size unset"),
        ({"augment": True}, "leave augment unset"),
        ({"name": "imagefolder:/nowhere"}, "/nowhere"),
    ],
)
def test_bad_input_is_a_sentence(arguments, says):
    with pytest.raises(DataError, match=says):
        load(**{"name": "digits", "split": "train", **arguments})
