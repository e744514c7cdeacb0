"""Getting a dataset from a real server: whole in its place, or nothing; stopped at any moment, it goes on."""

import os
import time

import pytest

from gaf.common.errors import GafError
from gaf.common.files import locked
from gaf.lab.data import DataError, download, files, get, load
from gaf.lab.data.catalog import DATASETS
from tests.forked import ROOT, Forked
from tests.lab.data.samples import ARCHIVE, cifar_files, cifar_from, mnist_from, packed
from tests.lab.data.server import Site, serve


@pytest.fixture
def site(data_dir):
    files = {f"/{ARCHIVE}": packed(cifar_files(data_dir))}
    with serve(Site(files)) as running:
        yield running


@pytest.fixture
def dataset(site):
    return cifar_from(site.files[f"/{ARCHIVE}"], site.url)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(download, "WAIT", 0.0)


def bring(dataset, root, **options):
    return get.get(dataset, root, lambda name: lambda done, total: None, **options)


def names(root):
    """What is in a root, but the lock, which stays."""
    return sorted({path.name for path in root.iterdir()} - {".lock"})


def test_an_archive_ends_as_a_folder(site, dataset, tmp_path, data_dir):
    root = tmp_path / "new/root"
    got = bring(dataset, root)
    assert (got.layout, got.folder) == ("binary", str(root / "cifar-100-binary"))
    assert got.downloaded == (f"{site.url}/{ARCHIVE}",)
    assert names(root) == ["cifar-100-binary"]
    for name, content in cifar_files(data_dir).items():
        assert (root / name).read_bytes() == content
    assert len(load("cifar100", "train", root=root)) == 200
    assert bring(dataset, root).downloaded == ()
    assert len(site.asked) == 1


def test_a_cut_connection_goes_on(site, dataset, tmp_path):
    site.cuts = [100_000, 1_000]
    bring(dataset, tmp_path)
    assert [asked for _, asked in site.asked] == [None, "bytes=100000-", "bytes=101000-"]
    assert names(tmp_path) == ["cifar-100-binary"]


def test_stopped_by_the_user_and_run_again(site, dataset, tmp_path):
    def stop(done, total):
        if done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get.get(dataset, tmp_path, lambda name: stop)
    assert names(tmp_path) == [f"{ARCHIVE}.part"]
    bring(dataset, tmp_path)
    assert site.asked[-1][1].startswith("bytes=")
    assert names(tmp_path) == ["cifar-100-binary"]


def test_killed_while_unpacking_and_run_again(site, dataset, tmp_path):
    (tmp_path / ".cifar-100-binary.unpacking/old").mkdir(parents=True)  # what a kill leaves behind
    bring(dataset, tmp_path)
    assert names(tmp_path) == ["cifar-100-binary"]


GET = """
import sys
from pathlib import Path
from gaf.lab.data import get
from tests.lab.data.samples import cifar_from
archive, root, url = sys.argv[1:]
get.get(cifar_from(Path(archive).read_bytes(), url), Path(root), lambda name: lambda *_: None)
"""


@pytest.mark.slow
def test_kill_9_while_unpacking(data_dir, tmp_path):
    """Nothing is there that would be taken for the dataset, and the next command makes it."""
    many = {f"cifar-100-binary/more/{i}": b"x" for i in range(4_000)}
    content = packed({**cifar_files(data_dir), **many})
    archive, root = tmp_path / "archive", tmp_path / "root"
    archive.write_bytes(content)
    deep = root / ".cifar-100-binary.unpacking/cifar-100-binary/more"
    with serve(Site({f"/{ARCHIVE}": content})) as site:
        for moment in (0, 1_000):
            child = Forked(["-c", GET, str(archive), str(root), site.url], cwd=ROOT)
            while not (deep / str(moment)).exists():
                assert child.poll() is None, "it ended before it was killed"
                time.sleep(0.001)
            child.kill()
            child.wait()
            assert not (root / "cifar-100-binary").exists()
        bring(cifar_from(content, site.url), root)
        assert len(site.asked) == 1
    assert names(root) == ["cifar-100-binary", ARCHIVE]  # which nobody knows to be ours any more
    assert len(names(root / "cifar-100-binary/more")) == 4_000


@pytest.mark.parametrize("path", ["../evil", "/tmp/gaf-evil", "cifar-100-binary/../../evil"])
def test_a_hostile_archive_leaves_no_folder(data_dir, tmp_path, path):
    content = packed({**cifar_files(data_dir, 10), path: b"evil"})
    root = tmp_path / "root"
    with serve(Site({f"/{ARCHIVE}": content})) as site, pytest.raises(DataError, match="leads out"):
        bring(cifar_from(content, site.url), root)
    assert names(root) == [ARCHIVE]
    assert names(tmp_path) == ["root"]


def test_an_archive_of_something_else_leaves_no_folder(tmp_path):
    content = packed({"cifar-100-binary/readme.html": b"hello"})
    with (
        serve(Site({f"/{ARCHIVE}": content})) as site,
        pytest.raises(DataError, match="does not hold"),
    ):
        bring(cifar_from(content, site.url), tmp_path)
    assert names(tmp_path) == [ARCHIVE]


def test_a_full_disk_while_unpacking_leaves_no_folder(dataset, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space"):
        bring(dataset, tmp_path)
    assert names(tmp_path) == [ARCHIVE]


def test_a_wrong_checksum_leaves_nothing(site, dataset, tmp_path):
    site.files[f"/{ARCHIVE}"] = b"<html>please log in</html>"
    with pytest.raises(DataError, match="not the published file"):
        bring(dataset, tmp_path)
    assert names(tmp_path) == []


def test_an_archive_that_was_there_is_used_and_kept(site, dataset, tmp_path):
    (tmp_path / ARCHIVE).write_bytes(site.files[f"/{ARCHIVE}"])
    bring(dataset, tmp_path)
    assert site.asked == []
    assert names(tmp_path) == ["cifar-100-binary", ARCHIVE]


@pytest.mark.parametrize(
    "address", ["http://", "http://[::1", "http://x:y", "http://a b", "http://ü\n"]
)
def test_addresses_that_are_none(dataset, tmp_path, address):
    with pytest.raises(DataError):
        bring(dataset, tmp_path, mirror=address)
    assert names(tmp_path) == []


def test_a_mirror_must_have_the_same_file(site, dataset, tmp_path):
    site.files[f"/mirror/{ARCHIVE}"] = site.files.pop(f"/{ARCHIVE}")
    bring(dataset, tmp_path, mirror=f"{site.url}/mirror/")
    assert site.asked == [(f"/mirror/{ARCHIVE}", None)]
    with pytest.raises(DataError, match="begins with http"):
        bring(dataset, tmp_path / "other", mirror="file:///etc")


FILES = {
    f"{name}.gz": os.urandom(20_000)
    for name in (
        *("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        *("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    )
}


@pytest.fixture
def mnist():
    """A server with the four files of MNIST, and the dataset that comes from it."""
    with serve(Site({f"/{name}": content for name, content in FILES.items()})) as site:
        yield site, mnist_from(FILES, site.url)


def check_mnist(root):
    assert names(root) == ["mnist"]
    assert {path.name: path.read_bytes() for path in (root / "mnist").iterdir()} == FILES


def test_single_files_end_as_a_folder(mnist, tmp_path):
    site, dataset = mnist
    assert len(bring(dataset, tmp_path).downloaded) == 4
    check_mnist(tmp_path)
    assert len(site.asked) == 4


@pytest.mark.parametrize("failed", range(4))
def test_a_file_that_fails_leaves_no_folder_and_the_next_command_goes_on(mnist, tmp_path, failed):
    site, dataset = mnist
    site.statuses = [0] * failed + [404]
    with pytest.raises(DataError, match="the server answers 404"):
        bring(dataset, tmp_path)
    assert not (tmp_path / "mnist").exists()
    assert names(tmp_path) == ([".mnist.arriving"] if failed else [])
    with pytest.raises(DataError, match="mnist is not in"):
        dataset.place(tmp_path)
    bring(dataset, tmp_path)
    check_mnist(tmp_path)
    assert len(site.asked) == 5  # what had come is not asked for again


def test_a_file_cut_short_goes_on(mnist, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "RETRIES", 0)
    site, dataset = mnist
    site.cuts = [None, 5_000, 0]
    with pytest.raises(DataError, match="5000 bytes are kept"):
        bring(dataset, tmp_path)
    assert names(tmp_path) == [".mnist.arriving"]
    bring(dataset, tmp_path)
    check_mnist(tmp_path)
    assert site.asked[3] == ("/train-labels-idx1-ubyte.gz", "bytes=5000-")


def test_a_folder_with_some_of_the_files_gets_the_others(mnist, tmp_path):
    site, dataset = mnist
    first, second, *_ = FILES
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / first).write_bytes(FILES[first])
    (tmp_path / "mnist" / second).write_bytes(b"half of it")
    site.statuses = [0, 404]
    with pytest.raises(DataError, match="404"):
        bring(dataset, tmp_path)
    assert names(tmp_path / "mnist") == sorted((first, second))
    assert (tmp_path / "mnist" / second).read_bytes() == b"half of it"
    bring(dataset, tmp_path)
    check_mnist(tmp_path)
    assert f"/{first}" not in [path for path, _ in site.asked]


def test_a_folder_in_the_way_is_not_touched(dataset, tmp_path):
    (tmp_path / "cifar-100-binary").mkdir()
    (tmp_path / "cifar-100-binary/train.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"lacks test\.bin: move it away"):
        bring(dataset, tmp_path)
    assert (tmp_path / "cifar-100-binary/train.bin").read_bytes() == b"mine"


def test_a_subset_does_not_stand_in_the_way(site, dataset, tmp_path, data_dir, contents):
    (tmp_path / "cifar-100-subset").symlink_to(data_dir / "cifar-100-subset")
    assert len(load("cifar100", "train", root=tmp_path)) == contents.cifar100[0]
    assert bring(dataset, tmp_path).downloaded
    assert len(load("cifar100", "train", root=tmp_path)) == 200  # what was got comes first


def test_two_commands_at_once(dataset, tmp_path):
    held = locked(tmp_path, GafError("the test has it to itself"))
    with held, pytest.raises(DataError, match="another command"):
        bring(dataset, tmp_path)
    bring(dataset, tmp_path)


def test_what_cannot_be_got(tmp_path):
    root = tmp_path / "root"
    for name, says in (("imagenet", "account"), ("digits", "nothing to get")):
        with pytest.raises(DataError, match=says):
            bring(DATASETS[name], root)
    with pytest.raises(DataError, match="it has binary, python"):
        bring(DATASETS["cifar10"], root, layout="parquet")
    assert not root.exists()


@pytest.mark.parametrize("name", [n for n, d in DATASETS.items() if d.layouts and not d.by_hand])
def test_every_recipe_has_an_official_address_and_a_checksum(name):
    for layout in DATASETS[name].layouts:
        assert layout.downloads
        for each in layout.downloads:
            assert each.url.startswith("https://")
            assert len(bytes.fromhex(each.md5)) == 16
            assert each.name.endswith((".gz", ".tgz", ".tar"))
        if not layout.unpacked:  # the files themselves are what is downloaded
            wanted = {f"{file}.gz" for files in layout.files.values() for file in files}
            assert {each.name for each in layout.downloads} == wanted == layout.md5.keys()
