"""Image folders: what counts as an image, what happens to broken ones, and that workers change nothing."""

import inspect
import multiprocessing
import os
import shutil
import sys
import warnings
import zlib

import pytest
import torch
from PIL import Image

from gaf.lab.data import DataError, FolderSource, load
from gaf.lab.data.imagefolder import BrokenImage, scan
from tests import forked

CPU = torch.device("cpu")


def make(folder, *names, size=(40, 30)):
    for i, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (i * 20 % 256, 100, 50)).save(path, "png")
    return folder


def take(source, indices, epoch=0):
    found = list(source.batches(indices, seed=0, epoch=epoch, device=CPU))
    return torch.cat([x for x, _ in found]), torch.cat([y for _, y in found])


@pytest.fixture
def few(tmp_path):
    names = [f"{split}/{c}/{i}.png" for split in ("train", "val") for c in "ab" for i in range(4)]
    return make(tmp_path / "few", *names)


def test_photographs(data_dir, contents):
    source = load("imagenette", "test", root=data_dir, workers=0)
    count = contents.photographs[1]
    assert (len(source), len(source.classes), source.shape) == (count, 10, (3, 224, 224))
    images, labels = take(source, [torch.arange(count)])
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert labels.tolist() == [label for label in range(10) for _ in range(count // 10)]
    assert images.mean((0, 2, 3)).abs().max() < 0.3  # normalised
    assert source.broken == {}
    gray = (images[:, 0] * 0.229 + 0.485 - images[:, 1] * 0.224 - 0.456).abs().amax((1, 2)) < 1e-3
    assert gray.sum() == contents.gray


def test_workers_batches_and_processes_change_nothing(data_dir, contents):
    sources = [load("imagenette", "train", root=data_dir, size=48, workers=w) for w in (0, 2)]
    count = contents.photographs[0]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:60]
    images, labels = take(sources[0], order.split(16), epoch=2)
    again, same = take(sources[1], order.split(7), epoch=2)
    assert torch.equal(again, images)
    assert torch.equal(same, labels)
    assert torch.equal(take(sources[0], [order[1::2]], epoch=2)[0], images[1::2])
    assert not torch.equal(take(sources[0], [order], epoch=3)[0], images)


def test_any_folder_by_its_path(few):
    train, test = (
        load(f"imagefolder:{few}", split, workers=0, size=8) for split in ("train", "test")
    )
    assert (len(train), len(test), train.classes) == (8, 8, ("a", "b"))
    assert load(f"imagefolder:{few}", "train", limit=3).listing.targets.tolist() == [0, 0, 1]


def test_what_counts_as_an_image(tmp_path):
    make(
        tmp_path,
        *("train/a/1.PNG", "train/a/2.JpEg", "train/a/deep/er/3.png", "train/a/ü 漢字 '\".png"),
        *("train/a/.hidden.png", "train/a/._4.png", "train/a/.thumbs/5.png", "train/a/notes.txt"),
        *("train/a/png", "train/.hidden/6.png", "train/7.png", "train/b/8.png", "test/b/9.png"),
    )
    listing = scan(tmp_path, "train")
    assert listing.classes == ("a", "b")
    assert [os.path.basename(path) for path in listing.paths] == [
        *("1.PNG", "2.JpEg", "3.png", "ü 漢字 '\".png"),
        "8.png",
    ]
    images, labels = take(load(f"imagefolder:{tmp_path}", "train", size=8), [torch.arange(5)])
    assert images.shape == (5, 3, 8, 8)
    assert labels.tolist() == [0, 0, 0, 0, 1]
    assert scan(tmp_path, "test").targets.tolist() == [1]  # test/, and a class may lack there


def test_names_that_are_not_unicode(tmp_path):
    make(tmp_path, "train/a/1.png", "val/a/1.png")
    odd = os.path.join(os.fsencode(tmp_path / "train/a"), b"\xff\xfe.png")
    try:
        shutil.copy(tmp_path / "train/a/1.png", odd)
    except OSError:
        pytest.skip("this file system takes only names in Unicode")
    source = load(f"imagefolder:{tmp_path}", "train", size=8)
    assert len(take(source, [torch.arange(2)])[1]) == 2
    assert source.fingerprint["train/"].startswith("2 images")


def test_a_circle_of_links_ends(tmp_path):
    make(tmp_path, "train/a/1.png", "val/a/1.png", "elsewhere/2.png")
    (tmp_path / "train/a/again").symlink_to(tmp_path / "train/a")
    (tmp_path / "train/b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "train/a/gone.png").symlink_to(tmp_path / "nowhere.png")
    listing = scan(tmp_path, "train")
    os.mkfifo(tmp_path / "train/a/pipe.png")  # to open it would wait for ever
    assert scan(tmp_path, "train").paths == listing.paths == ("a/1.png", "a/gone.png", "b/2.png")
    assert listing.fingerprint().startswith("3 images")
    source = FolderSource("links", listing, size=8, workers=0)
    with pytest.warns(BrokenImage, match=r"gone\.png is broken \(No such file or directory\)"):
        assert take(source, [torch.arange(3)])[1].tolist() == [0, 1, 1]


def test_links_to_links_are_read_once(tmp_path):
    """Two links in each of 30 folders lead to 2 ** 30 paths."""
    make(tmp_path, "train/a/1.png", *(f"more/{i}/x.png" for i in range(30)))
    for i in range(30):
        for name in ("left", "right"):
            target = tmp_path / f"more/{i + 1}" if i < 29 else tmp_path / "more/0"
            (tmp_path / f"more/{i}/{name}").symlink_to(target)
    (tmp_path / "train/a/more").symlink_to(tmp_path / "more/0")
    assert len(scan(tmp_path, "train").paths) == 31


def test_folders_deeper_than_the_stack(tmp_path):
    make(tmp_path, "train/a/1.png")
    (tmp_path / "train/a" / "/".join("b" * 200)).mkdir(parents=True)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    try:
        with pytest.raises(DataError, match="too many folders in folders"):
            scan(tmp_path, "train")
    finally:
        sys.setrecursionlimit(limit)


def test_an_index_beyond_the_images(few):
    source = load(f"imagefolder:{few}", "train", size=8, workers=0)
    for wrong in (8, -1):
        with pytest.raises(IndexError):
            take(source, [torch.tensor([wrong])])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(few):
    (few / "train/a").chmod(0)
    with pytest.raises(DataError, match="cannot be read"):
        load(f"imagefolder:{few}", "train")


def test_fingerprint_sees_names_and_sizes(few):
    first = load(f"imagefolder:{few}", "train").fingerprint
    assert load(f"imagefolder:{few}", "train").fingerprint == first
    Image.new("RGB", (90, 90)).save(few / "train/a/0.png")
    second = load(f"imagefolder:{few}", "train").fingerprint
    os.rename(few / "train/a/3.png", few / "train/a/4.png")
    assert (
        len({str(x) for x in (first, second, load(f"imagefolder:{few}", "train").fingerprint)}) == 3
    )


def damage(folder):
    """One broken file of each kind; the first two of class a and the last of class b."""
    whole = (folder / "train/a/2.png").read_bytes()
    (folder / "train/a/0.png").write_bytes(b"")
    (folder / "train/a/1.png").write_bytes(whole[: len(whole) // 2])
    (folder / "train/b/3.png").write_bytes(b"<html>404</html>")


@pytest.mark.parametrize("workers", [0, 2])
def test_broken_images_are_named_counted_and_replaced(few, workers):
    damage(few)
    source = load(f"imagefolder:{few}", "train", size=8, augment=False, workers=workers)
    with pytest.warns(BrokenImage) as caught:
        images, labels = take(source, torch.arange(8).split(3))
    assert len(caught) == 3
    assert {os.path.relpath(path, few) for path in source.broken} == {
        *("train/a/0.png", "train/a/1.png", "train/b/3.png")
    }
    assert "broken so far: 3" in str(caught[-1].message)
    assert labels.tolist() == [
        0,
        0,
        0,
        0,
        1,
        1,
        1,
        0,
    ]  # after the last comes the first readable one
    for row in (0, 1, 7):
        assert torch.equal(images[row], images[2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        take(source, [torch.arange(8)], epoch=1)  # not named again


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_image_ends_the_training_if_asked(few, workers):
    damage(few)
    source = load(f"imagefolder:{few}", "train", size=8, workers=workers, strict=True)
    with pytest.raises(
        DataError, match=r"train/a/0\.png is broken .*replace or remove it"
    ) as caught:
        take(source, [torch.arange(8)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_disk_that_is_gone(few, workers):
    source = load(f"imagefolder:{few}", "train", size=8, workers=workers)
    shutil.rmtree(few / "train")
    with (
        pytest.warns(BrokenImage),
        pytest.raises(DataError, match=r"no image can be read from .*on"),
    ):
        take(source, [torch.arange(8)])


def test_a_picture_that_would_not_fit_into_memory(few):
    """A PNG of a few bytes that claims 60,000 x 60,000 pixels."""
    whole = bytearray((few / "train/a/0.png").read_bytes())
    whole[16:24] = (60_000).to_bytes(4, "big") * 2
    whole[29:33] = zlib.crc32(whole[12:29]).to_bytes(4, "big")
    (few / "train/a/0.png").write_bytes(whole)
    source = load(f"imagefolder:{few}", "train", size=8, workers=0)
    with pytest.warns(BrokenImage, match="exceeds limit"):
        take(source, [torch.arange(2)])


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["val/a/1.png"], "has no folder train"),
        (["train/a/1.png"], "has no folder val nor test"),
        (["train/1.png", "val/a/1.png"], "images and no folders"),
        (["train/.a/1.png", "val/a/1.png"], "has no folders"),
        (["train/a/1.txt", "val/a/1.png"], "there is no image in"),
        (["train/a/1.png", "val/1.png"], "images and no folders"),
        (["train/a/1.png", "val/b/1.png"], "class 'b', which"),
        (["train/a/1.png", "val/a/1.txt"], "there is no image"),
    ],
)
def test_folders_of_another_shape(tmp_path, names, says):
    make(tmp_path, *names)
    with pytest.raises(DataError, match=says):
        [load(f"imagefolder:{tmp_path}", split) for split in ("train", "test")]


def test_an_epoch_left_early_leaves_no_worker(few):
    source = load(f"imagefolder:{few}", "train", size=8, workers=2)
    batches = source.batches(torch.arange(8).split(1), seed=0, epoch=0, device=CPU)
    next(batches)
    batches.close()
    assert multiprocessing.active_children() == []


IN_A_GROUP = """
import os, signal, sys
import torch
from gaf.lab.data import load

heard = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda n, _: heard.append(signal.Signals(n).name))
source = load(f"imagefolder:{sys.argv[1]}", "train", size=8, workers=2)
batches = source.batches(torch.arange(8).split(1), seed=0, epoch=0, device=torch.device("cpu"))
rows = [next(batches)]
os.killpg(0, signal.SIGINT)
os.killpg(0, signal.SIGTERM)
rows += list(batches)
print(len(rows), *sorted(heard))
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_signals_to_the_group_do_not_reach_the_workers(few):
    """Ctrl-C is the training's to answer: it saves, and needs no dead workers for that."""
    command = ["-c", IN_A_GROUP, str(few)]
    ended = forked.run(command, start_new_session=True)  # a group of its own
    assert ended == (0, "8 SIGINT SIGTERM\n", "")
