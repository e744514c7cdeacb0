"""A real HTTP server on this machine, with ranges, and with the faults that the network has."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What it serves and how.

    Args:
        files: path -> content.
        ranges: whether a range is honoured.
        cuts: for each request in turn, after how many bytes of the body the connection breaks; None: never.
        statuses: for each request in turn, a status to answer with instead; 0: none.
        reason: what it says beside a status of failure; unset: what HTTP has for it.
        length: whether it says how long a file is, or what it says instead.
        total: what it says of the length of the whole where it sends a part; unset: the truth.
        moved: path -> the address that it sends on to.
        endless: whether a body goes on until whoever asked has gone.
    """

    files: dict[str, bytes]
    ranges: bool = True
    cuts: list[int | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    reason: str | None = None
    length: bool | str = True
    total: str = ""
    moved: dict[str, str] = field(default_factory=dict)
    endless: bool = False
    sent: int = 0  # bytes of an endless body
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, range
    url: str = ""


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            site.asked.append((self.path, asked))
            status = site.statuses.pop(0) if site.statuses else 0
            cut = site.cuts.pop(0) if site.cuts else None
            content = site.files.get(self.path)
            if self.path in site.moved:
                self.send_response(302)
                self.send_header("Location", site.moved[self.path])
                self.end_headers()
                return
            if status or content is None:
                self.send_error(status or 404, site.reason)
                return
            start = 0
            if asked and site.ranges:
                start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                span = f"bytes {start}-{len(content) - 1}/{site.total or len(content)}"
                self.send_header("Content-Range", span)
            else:
                self.send_response(200)
            body = content[start:]
            if site.length is not False:
                said = str(len(body)) if site.length is True else site.length
                self.send_header("Content-Length", said)
            self.end_headers()
            with suppress(ConnectionError):  # whoever asked has gone
                self.wfile.write(body[:cut])
                while site.endless:
                    self.wfile.write(bytes(1 << 16))
                    site.sent += 1 << 16
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
