"""MNIST and Fashion-MNIST: IDX files, gzipped or not."""

import gzip
import os
import struct

import numpy as np
import pytest
import torch

from gaf.lab.data import DataError, DatasetMissing, load
from gaf.lab.data.records import read_array, read_idx
from tests.memory import MEGABYTE, at_most

rng = np.random.default_rng(0)
IMAGES = {
    split: rng.integers(0, 256, (n, 28, 28), np.uint8) for split, n in (("train", 50), ("t10k", 20))
}
LABELS = {split: rng.integers(0, 10, len(x)).astype(np.uint8) for split, x in IMAGES.items()}


def idx(array: np.ndarray) -> bytes:
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return head + array.tobytes()


def write(folder, *, zipped):
    folder.mkdir(parents=True)
    for split in IMAGES:
        files = {"images-idx3-ubyte": IMAGES[split], "labels-idx1-ubyte": LABELS[split]}
        for name, array in files.items():
            content = gzip.compress(idx(array)) if zipped else idx(array)
            (folder / f"{split}-{name}{'.gz' if zipped else ''}").write_bytes(content)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("name", "folder"),
    [("mnist", "mnist"), ("mnist", "MNIST/raw"), ("fashion-mnist", "fashion-mnist")],
)
def test_both_forms(tmp_path, name, folder, zipped):
    write(tmp_path / folder, zipped=zipped)
    for split, part in (("train", "train"), ("test", "t10k")):
        source = load(name, split, root=tmp_path)
        assert source.shape == (1, 28, 28)
        assert torch.equal(source.images[:, 0], torch.from_numpy(IMAGES[part]))
        assert torch.equal(source.targets, torch.from_numpy(LABELS[part]).long())
        assert all(key.endswith(".gz") == zipped for key in source.fingerprint)


def test_half_a_download_is_named(tmp_path):
    write(tmp_path / "mnist", zipped=True)
    (tmp_path / "mnist/t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DatasetMissing, match=r"lacks t10k-labels-idx1-ubyte; .*gaf data get mnist"):
        load("mnist", "train", root=tmp_path)


WHOLE = idx(IMAGES["t10k"])
BROKEN = {
    "empty": b"",
    "head only": WHOLE[:10],
    "cut": WHOLE[:-1],
    "longer": WHOLE + b"\0",
    "other type": b"\0\0\x0d\3" + WHOLE[4:],
    "other axes": idx(LABELS["t10k"]),
    "claims too much": struct.pack(">BBBB3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1),
    "no images, endless pixels": struct.pack(">BBBB3I", 0, 0, 8, 3, 0, 2**32 - 1, 2**32 - 1),
    "zipped and cut": gzip.compress(WHOLE)[:-20],
    "zipped and damaged": gzip.compress(WHOLE)[:40] + b"\xff" * 40,
    "zipped garbage": b"\x1f\x8b garbage",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_broken_files(content, tmp_path):
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_array(path, axes=3)
    assert str(path) in str(caught.value)


def test_files_that_do_not_belong_together(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(idx(IMAGES["train"]))
    labels.write_bytes(idx(LABELS["t10k"]))
    with pytest.raises(DataError, match=r"50 images and .* 20 labels"):
        read_idx([images, labels], classes=10)
    labels.write_bytes(idx(np.full(50, 10, np.uint8)))
    with pytest.raises(DataError, match="label 10"):
        read_idx([images, labels], classes=10)
    images.write_bytes(idx(np.zeros((0, 28, 28), np.uint8)))
    labels.write_bytes(idx(np.zeros(0, np.uint8)))
    with pytest.raises(DataError, match="no image"):
        read_idx([images, labels], classes=10)


def test_a_file_that_unpacks_to_more_than_it_says(tmp_path):
    """A gzip file of 200 KB holds 50 MB; what is read of it is what the head says."""
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(WHOLE)
        for _ in range(50):
            file.write(bytes(1 << 20))
    with at_most(20 * MEGABYTE), pytest.raises(DataError, match="holds more"):
        read_array(path, axes=3)


@pytest.mark.parametrize("what", ["a device", "a pipe", "a sparse file"])
def test_what_is_no_file_of_a_dataset_is_not_read(what, tmp_path):
    path = tmp_path / "t10k-images-idx3-ubyte"
    if what == "a device":
        path.symlink_to("/dev/zero")
    elif what == "a pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with (
        at_most(100 * MEGABYTE),
        pytest.raises(DataError, match=r"is no file|at most 268435456 bytes"),
    ):
        read_array(path, axes=3)
