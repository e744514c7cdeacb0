"""A check says what is there: complete, a subset, readable, or damaged and in what way."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from gaf.lab.data import DatasetMissing
from gaf.lab.data.catalog import CIFAR100, DATASETS, MNIST, find
from gaf.lab.data.check import check
from tests.lab.data.samples import RECORD, mnist_from
from tests.lab.data.test_cifar import python2_pickle
from tests.lab.data.test_idx import idx
from tests.lab.data.test_imagefolder import damage, make


def look(dataset, root, **options):
    told = []
    found = check(dataset, root, lambda *x: told.append(x), **options)
    return found, told


def test_digits_are_complete(tmp_path):
    assert look(DATASETS["digits"], tmp_path)[0].state == "complete"


def test_a_few_records_of_cifar100_are_a_subset(data_dir, contents):
    found, _ = look(CIFAR100, data_dir)
    train, test = contents.cifar100
    assert found.state == "subset"
    assert [(each.samples, each.published, each.classes) for each in found.splits] == [
        *((train, 50_000, 100), (test, 10_000, 100))
    ]
    assert [(each.name, each.size, each.matches) for each in found.files] == [
        *(("train.bin", train * RECORD, None), ("test.bin", test * RECORD, None))
    ]


def test_a_few_photographs_are_a_subset(data_dir, contents):
    found, told = look(DATASETS["imagenette"], data_dir)
    assert found.state == "subset"
    assert tuple(each.samples for each in found.splits) == contents.photographs
    assert told[-1] == ("test", contents.photographs[1], contents.photographs[1])


def test_a_missing_dataset(tmp_path):
    with pytest.raises(DatasetMissing, match="gaf data get cifar10"):
        look(DATASETS["cifar10"], tmp_path)


@pytest.fixture
def cifar(data_dir, tmp_path):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for name in ("train.bin", "test.bin"):
        source = data_dir / "cifar-100-subset/cifar-100-binary" / name
        (folder / name).write_bytes(source.read_bytes()[: 1000 * RECORD])
    return folder


def test_damaged_records(cifar, tmp_path):
    whole = (cifar / "train.bin").read_bytes()
    (cifar / "train.bin").write_bytes(whole[:-1])
    (cifar / "test.bin").write_bytes(b"")
    found, _ = look(CIFAR100, tmp_path)
    assert found.state == "damaged"
    assert len(found.problems) == 2
    assert "train.bin has 3073999 bytes" in found.problems[0]
    assert "test.bin has 0 bytes" in found.problems[1]
    assert [each.size for each in found.files] == [3_073_999, 0]


def test_classes_without_samples(cifar, tmp_path):
    records = np.fromfile(cifar / "train.bin", np.uint8).reshape(-1, RECORD)
    records[:, 1] %= 90
    records.tofile(cifar / "train.bin")
    assert look(CIFAR100, tmp_path)[0].problems == ["train has no sample of 10 of its 100 classes"]


def test_more_than_the_dataset_has(cifar, tmp_path):
    smaller = replace(CIFAR100, counts={"train": 999, "test": 1000})
    assert "1000 samples, the dataset only 999" in look(smaller, tmp_path)[0].problems[0]


def mnist_files():
    files = {}
    for split, count in (("train", 60), ("t10k", 20)):
        images = np.zeros((count, 28, 28), np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        files[f"{split}-images-idx3-ubyte.gz"] = gzip.compress(idx(images))
        files[f"{split}-labels-idx1-ubyte.gz"] = gzip.compress(idx(labels))
    return files


@pytest.mark.parametrize("changed", [False, True])
def test_published_checksums(tmp_path, changed):
    files = mnist_files()
    dataset = replace(mnist_from(files, "https://x"), counts={"train": 60, "test": 20})
    (tmp_path / "mnist").mkdir()
    for name, content in files.items():
        (tmp_path / "mnist" / name).write_bytes(content)
    if changed:
        other = gzip.compress(gzip.decompress(files["t10k-images-idx3-ubyte.gz"]), 1)
        (tmp_path / "mnist/t10k-images-idx3-ubyte.gz").write_bytes(other)
    found, _ = look(dataset, tmp_path)
    assert [each.matches for each in found.files] == [True, True, not changed, True]
    assert found.state == ("readable" if changed else "complete")  # packed anew, as Debian does
    assert found.problems == []


def test_a_pickle_that_is_not_the_published_one_is_damaged(data_dir, tmp_path):
    records = np.fromfile(data_dir / "cifar-100-subset/cifar-100-binary/test.bin", np.uint8)
    records = records.reshape(-1, RECORD)
    (tmp_path / "cifar-100-python").mkdir()
    content = python2_pickle(records[:, 2:], {"fine_labels": records[:, 1].tolist()})
    for name in ("train", "test"):
        (tmp_path / "cifar-100-python" / name).write_bytes(content)
    count = len(records)
    found, _ = look(replace(CIFAR100, counts={"train": count, "test": count}), tmp_path)
    assert found.state == "damaged"
    assert all("is not the published file" in each for each in found.problems)
    assert len(found.problems) == 2


def test_a_subset_need_not_have_the_published_checksum(tmp_path):
    (tmp_path / "mnist").mkdir()
    for name, content in mnist_files().items():
        (tmp_path / "mnist" / name).write_bytes(content)
    found, _ = look(MNIST, tmp_path)
    assert (found.state, found.problems) == ("subset", [])
    assert [each.matches for each in found.files] == [False] * 4


@pytest.mark.parametrize("workers", [0, 2])
def test_broken_images_are_named(tmp_path, workers):
    names = [f"{split}/{c}/{i}.png" for split in ("train", "val") for c in "ab" for i in range(4)]
    folder = make(tmp_path / "few", *names)
    dataset = find(f"imagefolder:{folder}")
    assert look(dataset, tmp_path, workers=workers)[0].state == "readable"
    damage(folder)
    found, _ = look(dataset, tmp_path, workers=workers)
    assert found.state == "damaged"
    assert sorted(each.partition(" is broken")[0] for each in found.problems) == [
        str(folder / name) for name in ("train/a/0.png", "train/a/1.png", "train/b/3.png")
    ]
    for path in (folder / "val").rglob("*.png"):
        path.write_bytes(b"")
    found, _ = look(dataset, tmp_path, workers=workers)
    assert "no image can be read" in found.problems[-1]
