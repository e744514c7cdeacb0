"""A file from an address, whole and as published, or not at all.

What has arrived is kept in ``NAME.part``, from where a cut connection or a command that was stopped goes on.
The file gets its name only after its checksum is right.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import socket
import ssl
import time
from collections.abc import Callable
from http.client import HTTPMessage
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from gaf.lab.data.files import DataError, reason

Report = Callable[[int, "int | None"], None]  # bytes so far, bytes in all if the server says
Say = Callable[[str], None]  # a line for whoever waits

TIMEOUT = 30.0  # seconds without a byte
RETRIES = 4  # in a row that bring nothing new
WAIT = 1.0  # seconds before the first retry, twice as long before each next
LARGEST = 1 << 32  # bytes of a file whose size is not known: more than any dataset that is got here
DIGITS = 20  # of a length: more are not even read
BLOCK = 1 << 18
TRY_AGAIN = frozenset((408, 429, 500, 502, 503, 504))
HEADERS = {"User-Agent": "gaf (activated-gradients)"}


class _Cut(Exception):
    """The connection ended too early; the message says how."""


class _TooLong(DataError):
    """More bytes than the file has."""


class _Redirects(HTTPRedirectHandler):
    """Follows to http and https, and from https to https only."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        allowed = ("https",) if req.type == "https" else ("http", "https")
        if urlsplit(newurl).scheme not in allowed:
            fp.close()
            raise DataError(
                f"{req.full_url} cannot be had: the server sends on to {newurl!r}, and only "
                f"{' or '.join(allowed)} is followed; name a mirror with --url"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(
    url: str,
    md5: str,
    target: Path,
    report: Report = lambda done, total: None,
    say: Say = lambda text: None,
    *,
    largest: int = LARGEST,
) -> None:
    """Bring the file at ``url`` to ``target``; nothing to do where it is there with the right checksum.

    Args:
        url: its address.
        md5: its checksum.
        target: where it goes.
        report: told of the bytes as they come.
        say: told what takes longer, in a line.
        largest: the most bytes that are taken.
    """
    if target.is_file() and md5_of(target) == md5:
        return
    part = target.with_name(f"{target.name}.part")
    resumed = part.exists()
    say(f"asking {url}")
    _receive(url, part, largest, report, say)
    received = md5_of(part)
    if (
        received != md5 and resumed
    ):  # its beginning may be of another file: once more from the start
        part.unlink()
        say(f"{url} is not what the part that was there belongs to: once more from the start")
        _receive(url, part, largest, report, say)
        received = md5_of(part)
    if received != md5:
        part.unlink()
        raise DataError(
            f"{url} is not the published file: its md5 is {received}, not {md5}; it was deleted, "
            "try again or name a mirror with --url"
        )
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, target)


def md5_of(path: Path) -> str:
    """The checksum in the form that the datasets' pages give it."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _receive(url: str, part: Path, largest: int, report: Report, say: Say) -> None:
    """All of the file, in as many requests as it takes while they bring something new."""
    most, failures = _size(part), 0
    while True:
        try:
            return _request(url, part, largest, report)
        except _TooLong:
            part.unlink(missing_ok=True)
            raise
        except _Cut as cut:
            failures = 0 if _size(part) > most else failures + 1
            most = max(most, _size(part))
            if failures > RETRIES:
                raise DataError(
                    f"{url} cannot be read ({cut}); {_size(part)} bytes are kept, and the same command "
                    "resumes from there"
                ) from None
            wait = WAIT * 2 ** (failures - 1)
            again = f" (try {failures} of {RETRIES})" if failures else ""
            say(f"{cut}: asking again in {wait:g} s{again}, {_size(part)} bytes are here")
            time.sleep(wait)


def _request(url: str, part: Path, largest: int, report: Report) -> None:
    """One request for what is missing."""
    start = _size(part)
    headers = {**HEADERS, "Range": f"bytes={start}-"} if start else HEADERS
    try:
        answer = build_opener(_Redirects).open(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        with error:
            if error.code == 416 and start:
                return  # nothing is missing, or the part is of another file: the checksum will tell
            if error.code in TRY_AGAIN:
                raise _Cut(f"the server answers {error.code} {error.reason}") from None
            raise DataError(
                f"{url} cannot be had: the server answers {error.code} {error.reason}"
            ) from None
    except DataError:
        raise
    except (ValueError, http.client.InvalidURL) as error:
        raise DataError(f"{url!r} is not an address: {error}") from None
    except URLError as error:
        if isinstance(error.reason, str | socket.gaierror | ssl.SSLCertVerificationError):
            raise DataError(
                f"{url} cannot be reached ({reason(error.reason)}): look to the network, name a mirror with "
                f"--url, or bring the file to {part.with_suffix('')} yourself"
            ) from None
        raise _Cut(reason(error.reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Cut(reason(error)) from None
    with answer:
        start, total = _range(answer, start, largest)
        with part.open("ab") as file:
            file.truncate(start)
            _copy(answer, file, start, total, largest, report)


def _range(answer: http.client.HTTPResponse, start: int, largest: int) -> tuple[int, int | None]:
    """Where the answer begins in the file, and how long the file is; a server may ignore the range."""
    if answer.status == 206:
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
        if span is None or _length(span[1], answer, largest) != start:
            raise DataError(f"{answer.url} cannot be had: the server answers with another range")
        return start, None if span[2] == "*" else _length(span[2], answer, largest)
    length = answer.headers.get("Content-Length", "")
    return 0, _length(length, answer, largest) if length.isdecimal() else None


def _length(digits: str, answer: http.client.HTTPResponse, largest: int) -> int:
    if len(digits) > DIGITS or int(digits) > largest:
        raise DataError(
            f"{answer.url} cannot be had: the server speaks of more than {largest} bytes"
        )
    return int(digits)


def _copy(
    answer: http.client.HTTPResponse,
    file: IO[bytes],
    done: int,
    total: int | None,
    largest: int,
    report: Report,
) -> None:
    report(done, total)
    while True:
        try:
            block = answer.read(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise _Cut(reason(error)) from None
        if not block:
            break
        done += len(block)
        if done > largest:
            raise _TooLong(f"{answer.url} does not end: more than {largest} bytes have come")
        file.write(block)
        report(done, total)
    if total is not None and done < total:
        raise _Cut(f"the connection ended after {done} of {total} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
