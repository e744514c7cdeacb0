"""Downloads from a real server: resumed, restarted, refused; never a file that is not the published one."""

import errno
import hashlib
import io
import random
from pathlib import Path
from urllib.request import Request

import pytest

from gaf.lab.data import DataError, download
from gaf.lab.data.catalog import DATASETS
from gaf.lab.data.download import fetch
from gaf.lab.data.layouts import Download
from tests.lab.data.server import Site, serve

CONTENT = random.Random(0).randbytes(1_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(download, "WAIT", 0.0)


@pytest.fixture
def site():
    with serve(Site({"/a.bin": CONTENT})) as running:
        yield running


def check_whole(folder: Path) -> None:
    assert (folder / "a.bin").read_bytes() == CONTENT
    assert [path.name for path in folder.iterdir()] == ["a.bin"]


def check_nothing(folder: Path) -> None:
    assert list(folder.iterdir()) == []


def test_a_file_comes_with_its_progress(site, tmp_path):
    told = []
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin", lambda *x: told.append(x))
    check_whole(tmp_path)
    assert told[0] == (0, 1_000_000)
    assert told[-1] == (1_000_000, 1_000_000)
    assert told == sorted(told)
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")  # there: the server is not asked again
    assert len(site.asked) == 1


def test_a_cut_connection_is_resumed(site, tmp_path):
    site.cuts = [300_000, 0, 200_001, 1]
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)
    assert [asked for _, asked in site.asked] == [
        *(None, "bytes=300000-", "bytes=300000-", "bytes=500001-", "bytes=500002-")
    ]


def test_a_later_command_resumes(site, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "RETRIES", 0)
    site.cuts = [400_000, 0]
    with pytest.raises(DataError, match=r"400000 bytes are kept") as caught:
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "a.bin.part").stat().st_size == 400_000
    assert not (tmp_path / "a.bin").exists()
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)
    assert site.asked[-1][1] == "bytes=400000-"


def test_a_server_that_ignores_ranges_starts_over(site, tmp_path):
    site.ranges = False
    site.cuts = [300_000, 600_000]
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)
    assert len(site.asked) == 3


def test_a_server_that_ignores_ranges_and_always_cuts_is_given_up(site, tmp_path):
    site.ranges = False
    site.cuts = [300_000] * 100
    with pytest.raises(DataError, match="ended after 300000 of 1000000 bytes"):
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    assert len(site.asked) == 2 + download.RETRIES


def test_a_server_that_does_not_say_the_length(site, tmp_path):
    site.length = False
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)


def test_without_a_length_a_cut_is_seen_by_the_checksum(site, tmp_path):
    site.length = False
    site.cuts = [10]
    with pytest.raises(DataError, match="not the published file"):
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_nothing(tmp_path)


def test_a_wrong_checksum_leaves_nothing(site, tmp_path):
    wrong = "0" * 32
    with pytest.raises(DataError, match=f"its md5 is {MD5}, not {wrong}"):
        fetch(f"{site.url}/a.bin", wrong, tmp_path / "a.bin")
    check_nothing(tmp_path)


@pytest.mark.parametrize("size", [0, 1000, 1_000_000, 1_500_000])
def test_a_part_of_another_file_is_thrown_away(site, tmp_path, size):
    (tmp_path / "a.bin.part").write_bytes(b"x" * size)
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)


def test_a_complete_part_only_needs_its_name(site, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)


def test_a_file_that_is_there_and_wrong_is_replaced(site, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"half of it")
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)


def test_a_server_that_is_busy_is_asked_again(site, tmp_path):
    site.statuses = [503, 429, 0]
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)


def test_whoever_waits_is_told_why(site, tmp_path):
    site.cuts, site.statuses = [300_000, None, None], [0, 503, 0]
    told = []
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin", say=told.append)
    assert told[0] == f"asking {site.url}/a.bin"
    assert "the connection ended after 300000 of 1000000 bytes: asking again in 0 s" in told[1]
    assert "503" in told[2]
    assert "(try 1 of 4), 300000 bytes are here" in told[2]
    assert len(told) == 3


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 25, str(1 << 39)])
def test_a_length_that_cannot_be(site, tmp_path, length):
    site.length = length
    with pytest.raises(DataError, match="more than 4294967296 bytes") as caught:
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    assert "\n" not in str(caught.value)
    assert len(site.asked) == 1
    check_nothing(tmp_path)


def test_a_range_that_cannot_be(site, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:1000])
    site.total = "9" * 5000
    with pytest.raises(DataError, match="more than 4294967296 bytes"):
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")


@pytest.mark.parametrize("length", ["-5", "many", ""])
def test_a_length_that_is_none(site, tmp_path, length):
    site.length = length
    fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)


@pytest.mark.parametrize("status", [403, 404])
def test_a_server_that_says_no_is_not(site, tmp_path, status):
    site.statuses = [status]
    with pytest.raises(DataError, match=f"the server answers {status}"):
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    assert len(site.asked) == 1
    check_nothing(tmp_path)


def test_nobody_listens(tmp_path):
    with serve(Site({})) as site:
        pass
    with pytest.raises(DataError, match="cannot be read"):
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    check_nothing(tmp_path)


def test_a_server_that_falls_silent(site, tmp_path, monkeypatch):
    import socket
    import threading

    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    monkeypatch.setattr(download, "RETRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = []
        thread = threading.Thread(
            target=lambda: [taken.append(listener.accept()) for _ in range(2)]
        )
        thread.start()
        with pytest.raises(DataError, match="timed out"):
            fetch(f"http://127.0.0.1:{listener.getsockname()[1]}/a", MD5, tmp_path / "a.bin")
        thread.join()
        for connection, _ in taken:
            connection.close()
    check_nothing(tmp_path)


def test_a_server_that_never_ends(site, tmp_path):
    site.length, site.endless = False, True
    with pytest.raises(DataError, match="does not end: more than 1100000 bytes have come"):
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin", largest=1_100_000)
    assert site.sent < 20_000_000  # what the system holds in between
    check_nothing(tmp_path)


def test_a_length_beyond_the_published_one_is_not_even_begun(site, tmp_path):
    with pytest.raises(DataError, match="speaks of more than 999999 bytes"):
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin", largest=999_999)
    check_nothing(tmp_path)


def test_every_download_is_bounded_by_its_size():
    downloads = [
        each for data in DATASETS.values() for layout in data.layouts for each in layout.downloads
    ]
    assert len(downloads) == 16
    for each in downloads:
        assert 0 < each.size <= each.largest <= 1.1 * each.size
    assert Download("https://x/y", MD5).largest == download.LARGEST


@pytest.mark.parametrize("address", ["{url}/a.bin", "/a.bin"])
def test_an_address_that_has_moved_is_followed(site, tmp_path, address):
    site.moved = {"/old": address.format(url=site.url)}
    fetch(f"{site.url}/old", MD5, tmp_path / "a.bin")
    check_whole(tmp_path)


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/a.bin", "file:///etc/passwd", "data:,x"])
def test_an_address_of_another_kind_is_not_followed(site, tmp_path, address):
    site.moved = {"/a.bin": address}
    with pytest.raises(DataError, match="cannot be had") as caught:
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin")
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(site.asked) == 1
    check_nothing(tmp_path)


def test_https_is_not_given_up_on_the_way():
    """The rule itself: a server of https would need a certificate that this machine trusts."""
    follow = download._Redirects().redirect_request
    request = Request("https://example.com/a.bin")
    with pytest.raises(
        DataError, match=r"sends on to 'http://example\.com/a\.bin', and only https"
    ):
        follow(request, io.BytesIO(), 302, "Found", {}, "http://example.com/a.bin")
    assert follow(request, io.BytesIO(), 302, "Found", {}, "https://example.com/b").type == "https"


def test_a_full_disk_is_not_a_cut_connection(site, tmp_path, monkeypatch):
    """The error passes through at once, and what has arrived stays."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def write_some(done, total):
        if done > 300_000:
            full()

    with pytest.raises(OSError, match="No space left"):
        fetch(f"{site.url}/a.bin", MD5, tmp_path / "a.bin", write_some)
    assert len(site.asked) == 1
    assert (tmp_path / "a.bin.part").exists()
