"""Hostile and broken archives: refused in a sentence, nothing outside the folder is touched."""

import gzip
import io
import random
import tarfile

import pytest

from gaf.lab.data import DataError
from gaf.lab.data.files import extract
from tests.memory import MEGABYTE, at_most


def entry(name, content=b"x", kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(content) if kind == tarfile.REGTYPE else 0
    return info, content


def pack(path, *entries, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def inside(tmp_path):
    folder = tmp_path / "a/b/inside"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_good_archive(tmp_path, inside, mode):
    archive = pack(
        tmp_path / "good.tar",
        entry("./data", kind=tarfile.DIRTYPE),
        entry("data/1.bin", b"1" * 5000),
        entry("data/deep/er/ü 漢字.bin", b"2"),
        entry("data/empty", b""),
        mode=mode,
    )
    extract(archive, inside, limit=10_000)
    assert (inside / "data/1.bin").read_bytes() == b"1" * 5000
    assert (inside / "data/deep/er/ü 漢字.bin").read_bytes() == b"2"
    assert (inside / "data/empty").read_bytes() == b""


HOSTILE = {
    "parent": [entry("../evil")],
    "parent in the middle": [entry("data/../../evil")],
    "absolute": [entry("/tmp/gaf-evil")],
    "windows": [entry("C:\\evil")],
    "windows parent": [entry("data\\..\\..\\evil")],
    "windows root": [entry("\\evil")],
    "symbolic link out": [
        entry("data/l", kind=tarfile.SYMTYPE, link="../../.."),
        entry("data/l/evil"),
    ],
    "symbolic link to a file": [entry("l", kind=tarfile.SYMTYPE, link="/etc/passwd")],
    "hard link": [entry("l", kind=tarfile.LNKTYPE, link="../evil")],
    "pipe": [entry("p", kind=tarfile.FIFOTYPE)],
    "device": [entry("d", kind=tarfile.CHRTYPE)],
    "folder outside": [entry("../evil", kind=tarfile.DIRTYPE)],
}


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_archives(tmp_path, inside, entries):
    archive = pack(tmp_path / "evil.tar.gz", *entries)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="is refused") as caught:
        extract(archive, inside, limit=10_000)
    assert str(archive) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_name_of_megabytes_is_not_read(tmp_path, inside):
    """Packed it takes a thousandth; tarfile reads a long name whole."""
    content = bytes(40 * MEGABYTE)
    info, _ = entry("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, len(content)
    archive = tmp_path / "names.tar.gz"
    with gzip.open(archive, "wb", compresslevel=1) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT) + content)
    del content
    with at_most(20 * MEGABYTE), pytest.raises(DataError, match="longer than any"):
        extract(archive, inside, limit=10_000)


def test_what_is_no_archive_is_one_line(tmp_path, inside):
    path = tmp_path / "x.tar.gz"
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match="no archive or a damaged one") as caught:
        extract(path, inside, limit=10_000)
    assert "\n" not in str(caught.value)


def test_a_bomb(tmp_path, inside):
    archive = pack(tmp_path / "bomb.tar.gz", *(entry(f"{i}", b"\0" * 1_000_000) for i in range(5)))
    assert archive.stat().st_size < 20_000
    with pytest.raises(DataError, match="unpacks to more than 3000000 bytes"):
        extract(archive, inside, limit=3_000_000)
    assert sum(path.stat().st_size for path in inside.iterdir()) <= 3_000_000


def test_many_entries_without_content(tmp_path, inside):
    archive = pack(tmp_path / "many.tar.gz", *(entry(f"{i}", b"") for i in range(200)))
    with pytest.raises(DataError, match="more than"):
        extract(archive, inside, limit=100_000)


def test_cut_archives(tmp_path, inside):
    whole = pack(
        tmp_path / "whole.tar.gz", entry("1", random.Random(0).randbytes(99_999))
    ).read_bytes()
    archive = tmp_path / "cut.tar.gz"
    for size in (0, 5, 100, len(whole) // 2, len(whole) - 1000):
        archive.write_bytes(whole[:size])
        with pytest.raises(DataError, match="damaged"):
            extract(archive, inside, limit=1_000_000)


ODD_HEADERS = {
    "a map that is no numbers": {"GNU.sparse.map": "a,b"},
    "a number of 5,000 digits": {"GNU.sparse.map": "1,2", "GNU.sparse.size": "9" * 5000},
    "a size that is no number": {"GNU.sparse.size": "many"},
    "a map that is not there": {
        **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
        "GNU.sparse.realsize": "10",
    },
    "less than nothing": {"size": "-5"},
    "more than there is": {"size": "9" * 30},
    "a name of 100,000 characters": {"path": "x" * 100_000},
}


@pytest.mark.parametrize("headers", ODD_HEADERS.values(), ids=ODD_HEADERS.keys())
def test_odd_headers(tmp_path, inside, headers):
    """Of the extended format and of files with holes, which tarfile trusts."""
    info, content = entry("a")
    info.pax_headers = headers
    archive = pack(tmp_path / "odd.tar", (info, content), mode="w")
    with pytest.raises(DataError) as caught:
        extract(archive, inside, limit=10_000)
    assert str(archive) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert not any(path.is_file() for path in inside.rglob("*"))


def test_something_else(tmp_path, inside):
    archive = tmp_path / "page.tar.gz"
    archive.write_bytes(b"<html>please log in</html>" * 100)
    with pytest.raises(DataError, match="no archive"):
        extract(archive, inside, limit=1_000_000)
