"""Both official layouts give the same images; a damaged or hostile file is refused in a sentence."""

import os
import pickle
import struct
import time

import numpy as np
import pytest
import torch

from gaf.lab.data import DataError, load, pickles
from gaf.lab.data.catalog import CIFAR100_CLASSES
from gaf.lab.data.records import read_binary, read_python
from tests.memory import MEGABYTE, at_most

COUNT = 300


@pytest.fixture(scope="module")
def records(data_dir):
    """Of CIFAR-100: coarse and fine labels, pixels."""
    path = data_dir / "cifar-100-subset/cifar-100-binary/train.bin"
    content = np.fromfile(path, np.uint8, COUNT * 3074).reshape(COUNT, 3074)
    return content[:, 0], content[:, 1], content[:, 2:].copy()


def python2_pickle(
    pixels: np.ndarray, labels: dict[str, list[int]], columns: bool = False
) -> bytes:
    """As Python 2 and the numpy of 2009 wrote it, opcode by opcode: protocol 2, byte strings."""

    def text(x: bytes) -> bytes:
        return b"T" + struct.pack("<I", len(x)) + x

    def number(x: int) -> bytes:
        return b"J" + struct.pack("<i", x)

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85"
        b"U\x01b\x87R(" + number(1) + b"(" + number(len(pixels)) + number(pixels.shape[1]) + b"t"
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        + (b"\x88" if columns else b"\x89")
        + text((pixels.T if columns else pixels).tobytes())
        + b"tb"
    )
    out = b"\x80\x02}q\x01(" + text(b"data") + array
    out += text(b"batch_label") + text(b"training batch 1 of 5")
    for key, values in labels.items():
        out += text(key.encode()) + b"](" + b"".join(map(number, values)) + b"e"
    return out + b"u."


@pytest.mark.parametrize("columns", [False, True])
def test_python2_pickles_of_cifar100(records, tmp_path, columns):
    coarse, fine, pixels = records
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    labels = {"coarse_labels": coarse.tolist(), "fine_labels": fine.tolist()}
    for name in ("train", "test"):
        (folder / name).write_bytes(python2_pickle(pixels, labels, columns))
    source = load("cifar100", "train", root=tmp_path)
    assert torch.equal(source.images, torch.from_numpy(pixels).view(-1, 3, 32, 32))
    assert torch.equal(source.targets, torch.from_numpy(fine).long())
    assert source.classes == CIFAR100_CLASSES
    assert source.fingerprint.keys() == {"train"}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_today(records, tmp_path, protocol):
    """A user's own file, of any protocol; six files make CIFAR-10."""
    _, fine, pixels = records
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    labels = (fine % 10).tolist()
    content = pickle.dumps({"data": pixels, "labels": labels, "filenames": ["é.png"]}, protocol)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (folder / name).write_bytes(content)
    source = load("cifar10", "train", root=tmp_path)
    assert len(source) == 5 * COUNT
    assert torch.equal(source.images[:COUNT].flatten(1), torch.from_numpy(pixels))
    assert source.targets[COUNT : 2 * COUNT].tolist() == labels


def test_binary_is_the_python_layout(records, tmp_path):
    coarse, fine, pixels = records
    (tmp_path / "b").write_bytes(np.column_stack((coarse, fine, pixels)).tobytes())
    (tmp_path / "p").write_bytes(python2_pickle(pixels, {"fine_labels": fine.tolist()}))
    binary = read_binary([tmp_path / "b"], labels=2, classes=100)
    python = read_python([tmp_path / "p"], key="fine_labels", classes=100)
    assert torch.equal(binary.images, python.images)
    assert torch.equal(binary.targets, python.targets)


def test_names_mean_and_spread_are_the_published_ones(data_dir, contents):
    source = load("cifar100", "train", root=data_dir)
    assert len(source) == contents.cifar100[0]
    names = (data_dir / "cifar-100-subset/cifar-100-binary/fine_label_names.txt").read_text()
    assert tuple(names.split()) == source.classes
    pixels = source.images.double().div(255)
    assert torch.allclose(pixels.mean((0, 2, 3)), torch.tensor(source.mean).double(), atol=0.01)
    assert torch.allclose(pixels.std((0, 2, 3)), torch.tensor(source.std).double(), atol=0.01)


class Runs:
    """Unpickled by pickle itself, it would make a folder."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_with_code_is_refused_and_not_run(tmp_path, protocol):
    trap = tmp_path / "trap"
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({"data": Runs(trap), "labels": []}, protocol))
    with pytest.raises(DataError, match=r"mkdir.*nothing of it was run") as caught:
        read_python([path], key="labels", classes=10)
    assert str(path) in str(caught.value)
    assert not trap.exists()


NESTED = (
    b")" + b"\x85" * 500_000
)  # a tuple in a tuple in a tuple ...: to hash it overflows the stack

HOSTILE = {
    "a nested key": b"\x80\x04}(" + NESTED + b"K\x01u.",
    "one nested key": b"\x80\x04}" + NESTED + b"K\x01s.",
    "a dictionary with a nested key": b"(" + NESTED + b"K\x01d.",
    "a set": b"\x80\x04\x8f(" + NESTED + b"\x90.",
    "a frozen set": b"\x80\x04(" + NESTED + b"\x91.",
    "eval": b"cbuiltins\neval\n(V1+1\ntR.",
    "getattr on numpy": b"cnumpy\nload\n(Vx\ntR.",
    "a submodule by dots": b"\x80\x04\x8c\x05numpy\x8c\x0dlinalg.solver\x93.",
    "an extension": b"\x82\x01.",
    "a persistent object": b"Pabc\n.",
    "an instance": b"(ios\nsystem\n.",
    "a huge memo index": b"}r\xff\xff\xff\xff.",
    "a huge byte array": b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "an array without bytes": b"}(Vdata\ncnumpy\nndarray\n)Ru.",
    "a change of a stand-in": b"c_codecs\nencode\nN}V__defaults__\n)s\x86b0}.",
    "no dictionary": b"]K\x01a.",
    "nothing": b"",
    "text": b"this is no pickle",
    "deep": b"(" * 100_000 + b"t" * 100_000 + b".",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_and_broken_pickles(content, tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_python([path], key="labels", classes=10)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def length(n, size=4):
    return n.to_bytes(size, "little")


MANY = 100_000
TEXT = b"X" + length(500_000) + b"a" * 500_000 + b"q\x00"
LARGE = (b"\x8a\x7f" + b"\x7f" * 0x7F) * MANY  # integers of 127 bytes
ARRAY = b"cnumpy.core.numeric\n_frombuffer\n"
SHAPE = b"}(Vdata\n" + ARRAY + b"(B" + length(4) + b"aaaacnumpy\ndtype\nVu1\n\x85R("
EXHAUSTING = {
    "a byte array of 1 TB": (b"\x80\x05\x96" + length(1 << 40, 8) + b".", "longer than the file"),
    "bytes of 1 TB": (b"\x80\x04\x8e" + length(1 << 40, 8) + b".", "ends too early"),
    "text of 1 TB": (b"\x80\x04\x8d" + length(1 << 40, 8) + b".", "ends too early"),
    "a frame of 1 TB": (b"\x80\x04\x95" + length(1 << 40, 8) + b"].", "no dictionary"),
    "an integer of 2 GB": (b"\x8b" + length((1 << 31) - 1) + b".", "ends too early"),
    "a memo of 4 billion": (b"Nr\xff\xff\xff\xff.", "no dictionary"),
    "a shape of large integers": (SHAPE + LARGE + b"ttRu.", "than its shape"),
    "a text encoded again and again": (
        b"c_codecs\nencode\nq\x01" + TEXT + b"h\x01h\x00\x85R" * MANY + b".",
        "call after call",
    ),
    "bytes in many arrays": (
        ARRAY + b"q\x01" + TEXT + b"h\x01h\x00\x85R" * MANY + b".",
        "call after call",
    ),
    "nothing": (b"", "it ends too early"),
}


@pytest.mark.parametrize(("content", "reason"), EXHAUSTING.values(), ids=EXHAUSTING.keys())
def test_pickles_that_would_take_all_memory_or_time(content, reason, tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(content)
    begun = time.process_time()
    with at_most(400 * MEGABYTE), pytest.raises(DataError, match=reason):
        read_python([path], key="labels", classes=10)
    assert time.process_time() - begun < 5  # observed: 0.4


def test_a_pickle_of_empty_containers(tmp_path, monkeypatch):
    """Each takes a byte of the file and 72 of memory."""
    monkeypatch.setattr(pickles, "INSTRUCTIONS", 1000)
    path = tmp_path / "batch"
    path.write_bytes(b"}" * 1001 + b".")
    with pytest.raises(DataError, match="more instructions"):
        read_python([path], key="labels", classes=10)


def test_pickles_that_hold_something_else(records, tmp_path):
    _, fine, pixels = records
    path = tmp_path / "batch"
    wrong = {
        "no labels": {"data": pixels},
        "too few labels": {"data": pixels, "labels": [0]},
        "labels of another kind": {"data": pixels, "labels": ["0"] * COUNT},
        "labels beyond the classes": {"data": pixels, "labels": fine.tolist()},
        "negative labels": {"data": pixels, "labels": [-1] * COUNT},
        "huge labels": {"data": pixels, "labels": [1 << 80] * COUNT},
        "other images": {"data": pixels[:, :100].copy(), "labels": [0] * COUNT},
        "floats": {"data": pixels.astype(np.float32), "labels": [0] * COUNT},
        "objects": {"data": np.array([None]), "labels": [0]},
    }
    for content in wrong.values():
        path.write_bytes(pickle.dumps(content, 2))
        with pytest.raises(DataError):
            read_python([path], key="labels", classes=10)


def test_a_cut_pickle(records, tmp_path):
    whole = python2_pickle(records[2], {"fine_labels": records[1].tolist()})
    path = tmp_path / "train"
    for size in (1, 10, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"not a readable pickle|is refused"):
            read_python([path], key="fine_labels", classes=100)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "0 bytes"),
        (b"\0" * 3073, "3073 bytes"),
        (b"\0" * 3075, "3075 bytes"),
        (b"\0\0" + b"\0" * 3072 + b"\0\x64" + b"\0" * 3072, "record 1 has label 100"),
    ],
)
def test_broken_binary_files(content, says, tmp_path):
    path = tmp_path / "train.bin"
    path.write_bytes(content)
    with pytest.raises(DataError, match=says):
        read_binary([path], labels=2, classes=100)


def test_a_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_binary([tmp_path], labels=2, classes=100)
